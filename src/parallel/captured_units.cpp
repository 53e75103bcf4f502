// Sharded parameters in a captured step (docs/captured-steps.md). A replay must depend on the shares alone, and the
// host does not see which units it brings. So the step begins with all units gone, on all devices, and ends so too:
//
//   1. begin_step(), before the capture and before each replay, sends changes by hand to the shares, lets all units go,
//      and has the current streams wait for all work that may use a buffer.
//   2. In the capture, each device's stream of copies waits for the device's current stream before its first use. Only
//      work of the step is waited for.
//   3. end_step(), at the end of the captured work, does as begin_step(), as part of that work.
//
// A buffer that is made in the capture has memory of the graph. It stays when the graph goes, as all memory in use
// does.
#include <mutex>
#include <utility>

#include <lockstep/core/error.h>

#include "core/context.h"
#include "core/text.h"
#include "parallel/parameter_units.h"
#include "tensor/host_state.h"
#include "tensor/replay_values.h"

namespace lockstep {

class ParameterUnits::StepState final : public HostStatePart {
 public:
  explicit StepState(std::weak_ptr<ParameterUnits> owner) : owner_(std::move(owner)) {}

  bool is_gone() const override { return owner_.expired(); }
  void begin() override {
    const auto owner = owner_.lock();
    if (!owner || present_step() != 0) return;  // (enter_step() refuses units that the capture is the first to use)
    found_ = owner->layout();
    owner->begin_step();
  }
  const char* find_mismatch() override {
    const auto owner = owner_.lock();
    return owner && owner->layout() == found_ ? nullptr : "the layout of the sharded parameters of a model";
  }

 private:
  const std::weak_ptr<ParameterUnits> owner_;
  std::uint64_t found_ = 0;
};

void ParameterUnits::use_in_step() {
  if (HostState* const parts = context().host_state) parts->add<StepState>(this, weak_from_this());
}

std::uint64_t ParameterUnits::layout() {
  const std::scoped_lock lock(mutex_);
  return layout_;
}

void ParameterUnits::begin_step() {
  Lock lock(mutex_);
  keep_changes(lock);
  let_all_go();
  mark_converted_stale();  // a step converts the shares itself: the host does not know when its launches did
  for (Home& home : homes_) {
    const Stream current = current_stream(home.device);
    for (Buffer& buffer : home.buffers) {
      for (const Stream& user : buffer.users)
        if (user != current) current.wait(user.record());
      buffer.users.assign(1, current);  // for later copies outside of the step
    }
  }
  are_gone_ = true;
}

void ParameterUnits::end_step() {
  const std::scoped_lock lock(mutex_);
  let_all_go();
  mark_converted_stale();
  are_gone_ = false;
}

// Called before the buffers of device d are used. In a captured step, the copies start after the present work of
// `begin`, a stream of the step.
void ParameterUnits::enter_step(std::size_t d, const Stream& begin) {
  Home& home = homes_[d];
  const std::uint64_t step = present_step();
  if (home.step == step) return;
  if (step == 0) {
    for (std::vector<Buffer>* const buffers : {&home.buffers, &home.singles})
      for (Buffer& buffer : *buffers) buffer.piece.reset();  // if end_step() has failed
    home.step = 0;
    return;
  }
  if (exchange_)
    throw InvalidArgument(text("[CapturedStep] expected parameters of one process, got Shard::parameters in a job of ",
                               processes_,
                               " processes: work with other processes is not captured, run the step eagerly"));
  if (!are_gone_)
    throw InvalidArgument(
        text("[CapturedStep] expected sharded parameters (Shard::parameters) that the eager step "
             "before the capture has "
             "used, and that no other thread uses during the capture, got some that are in use on ",
             home.device, ": let the function do the same work in each step"));
  home.copies.wait(begin.record());
  home.step = step;
  if (std::exchange(step_, step) == step) return;
  ReplayValues& values = *context().replay_values;
  values.before_each([units = shared_from_this()] { units->begin_step(); });
  values.before_end([units = shared_from_this()] { units->end_step(); });
}

void ParameterUnits::enter_step() {
  for (std::size_t d = 0; d < homes_.size(); ++d) enter_step(d, current_stream(homes_[d].device));
}

}  // namespace lockstep
