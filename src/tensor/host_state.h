// Host state that a training step reads and changes: which gradients are set, optimizer state, which tensors require
// gradients, settings of modules. A CapturedStep captures the work of one such step as a graph and replays it. The host
// code that enqueued the captured work depended on this state, but does not run in a replay. So before each replay the
// state must be as that code found it, and after the replay it is set to what that code left.
//
// Each step that a CapturedStep runs on the host has a HostState in its Context. A class whose state is in an object
// that outlives the step adds this object to the HostState wherever the class reads or changes the state. So a step
// that runs on the host collects the objects that it uses. Their state is saved before the next step is captured. Only
// the step's own thread uses a HostState.
#pragma once

#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lockstep {

class ReplayValues;

/// The part of one object's state that steps depend on or change.
class HostStatePart {
 public:
  virtual ~HostStatePart() = default;

  virtual bool is_gone() const = 0;         ///< True if the object, a temporary of the step, no longer exists.
  virtual void begin() = 0;                 ///< Called before a capture: notes the state that the step finds.
  virtual void end(const ReplayValues&) {}  ///< Called after the capture: notes the state that the step left.
  /// Returns a name, for a message, of state that differs from what the captured step found; null if no state differs.
  /// Throws InvalidArgument if the step's function cannot run any more.
  virtual const char* find_mismatch() = 0;
  virtual void restore_captured() {}  ///< Called after a replay: sets the state to what the captured step left.
  virtual void after_step() {}        ///< Called after each step, run on the host or replayed.
};

class HostState {
 public:
  /// Returns the part of that object. If there is none yet, makes it: Part(arguments...).
  template <class Part, class... Arguments>
  Part& add(const void* object, Arguments&&... arguments) {
    const auto found = places_.find(object);
    if (found != places_.end() && !parts_[found->second].part->is_gone())
      return static_cast<Part&>(*parts_[found->second].part);
    auto made = std::make_unique<Part>(std::forward<Arguments>(arguments)...);
    Part& part = *made;
    if (has_begun_) part.begin();
    places_[object] = parts_.size();
    parts_.push_back({object, std::move(made)});
    return part;
  }

  void begin();
  void end(const ReplayValues& step);
  const char* find_mismatch();
  void restore_captured();
  void after_step();

 private:
  struct Entry {
    const void* object;
    std::unique_ptr<HostStatePart> part;
  };
  void drop_gone();

  std::vector<Entry> parts_;
  std::unordered_map<const void*, std::size_t> places_;
  bool has_begun_ = false;
};

/// An object that each step uses, such as a schedule. The object must outlive the CapturedStep's replays.
class RequiredObject final : public HostStatePart {
 public:
  /// `what`, a string literal, names the object in messages.
  RequiredObject(std::weak_ptr<const void> object, const char* what) : object_(std::move(object)), what_(what) {}

  bool is_gone() const override { return object_.expired(); }
  void begin() override {}
  const char* find_mismatch() override;

 private:
  const std::weak_ptr<const void> object_;
  const char* const what_;
};

/// Throws InvalidArgument: the object `what` was destroyed although the step's function refers to it.
[[noreturn]] void throw_gone_from_step(const char* what);

}  // namespace lockstep
