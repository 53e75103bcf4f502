// An optimizer's part of a captured step (a training step that is replayed as a CUDA graph): the rules of its updates,
// which hold the learning rate and step count, so that each replay sends them anew.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "optim/optimizer_impl.h"
#include "tensor/replay_values.h"

namespace lockstep::optim {

/// Call before a captured step changes anything. Throws InvalidArgument, naming the optimizer, if the step of a
/// parameter with `slots` tensors of state cannot be captured.
void check_capture(const std::string& optimizer, const Tensor& parameter, const ParameterState& state,
                   std::size_t slots);

/// The rules of a batch's updates: one for each apply() of the optimizer.
class CapturedRules final : public CapturedRule {
 public:
  CapturedRules(ReplayValues& values, DeviceState& device) : values_(&values), device_(&device) {}

  void end_capture() { values_ = nullptr; }
  bool is_empty() const noexcept { return rules_.empty(); }
  /// Calls `update` without sending rules. Returns true if `update` puts rules for exactly the kernels that were
  /// captured.
  template <class Update>
  bool matches_capture(const Update& update) {
    begin(true);
    update();
    return matches_ && next_ == rules_.size();
  }
  void begin_replay() { begin(false); }  ///< The next put() calls send their rules.

  bool put(const char* op, unsigned slots, const void* rule, std::size_t bytes) override;
  const TensorImpl& memory() const override { return *rules_.back().value.memory.impl(); }

 private:
  struct Entry {
    const char* op;
    unsigned slots;
    std::size_t bytes;
    ReplayValue value;
  };

  void begin(bool checking) {
    checking_ = checking;
    matches_ = true;
    next_ = 0;
  }

  ReplayValues* values_;  // null once the capture has ended
  DeviceState* device_;
  std::vector<Entry> rules_;
  bool checking_ = false, matches_ = true;
  std::size_t next_ = 0;
};

/// A batch of a captured step. A replay sends its rules and launches nothing.
struct Optimizer::CapturedBatch {
  std::size_t group;
  std::vector<std::size_t> parameters;  // all have taken the same number of steps
  std::shared_ptr<CapturedRules> rules;
  Batch batch;
};

/// The data of one Optimizer::step() in a captured step.
struct Optimizer::CapturedOptimizerStep {
  std::vector<std::pair<std::size_t, std::size_t>> stepping;  // parameters that step: group, index in the group
  std::vector<CapturedBatch> batches;
};

}  // namespace lockstep::optim
