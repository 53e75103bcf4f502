// What a training step finds on the host and leaves there: gradients that are set or not, optimizer state, which
// tensors require gradients, settings of modules. Captured work was enqueued by host code that looked at these: before
// it is launched again they must be as that code found them, and after the launch they are made what that code left.
//
// Each step that a CapturedStep takes on the host runs with a StepParts in its Context. Whoever keeps such state in an
// object that outlives the step adds the object to it wherever it looks at the state or changes it. The parts of one
// step are known when the next one is captured, so what that one finds can be noted before it begins. One thread uses
// them: the step's own.
#pragma once

#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lockstep {

class StepValues;

/// One object's state, as far as steps depend on it or change it.
class StepPart {
 public:
  virtual ~StepPart() = default;

  virtual bool is_gone() const = 0;       ///< The object went with the step: a temporary of its own.
  virtual void begin() = 0;               ///< A step is captured next: notes what it finds.
  virtual void end(const StepValues&) {}  ///< It was captured: notes what it has left.
  /// What is not as the captured step found it, for a message; null for nothing. Throws InvalidArgument where the
  /// function cannot run any more.
  virtual const char* change() = 0;
  virtual void leave() {}  ///< The work was launched: makes the state what the captured step left.
  virtual void mark() {}   ///< After each step, whether it ran on the host or was launched.
};

class StepParts {
 public:
  /// The part of that object; Part(arguments...) if there is none yet.
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
  void end(const StepValues& step);
  const char* change();
  void leave();
  void mark();

 private:
  struct Entry {
    const void* object;
    std::unique_ptr<StepPart> part;
  };
  void drop_gone();

  std::vector<Entry> parts_;
  std::unordered_map<const void*, std::size_t> places_;
  bool has_begun_ = false;
};

/// An object that the step uses again, such as a schedule, which must not go.
class LivingPart final : public StepPart {
 public:
  /// `what`: a literal.
  LivingPart(std::weak_ptr<const void> object, const char* what) : object_(std::move(object)), what_(what) {}

  bool is_gone() const override { return object_.expired(); }
  void begin() override {}
  const char* change() override;

 private:
  const std::weak_ptr<const void> object_;
  const char* const what_;
};

/// For a part whose object went, though the step's function refers to it.
[[noreturn]] void throw_gone_from_step(const char* what);

}  // namespace lockstep
