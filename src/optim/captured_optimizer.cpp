#include "optim/captured_optimizer.h"

#include <cstring>
#include <string_view>

#include <lockstep/core/error.h>

#include "core/context.h"
#include "core/text.h"
#include "tensor/host_state.h"

namespace lockstep::optim {

bool CapturedRules::put(const char* op, unsigned slots, const void* rule, std::size_t bytes) {
  if (values_) {
    rules_.push_back({op, slots, bytes, values_->add(*device_, rule, bytes)});
    return true;
  }
  const Entry* const captured = next_ < rules_.size() ? &rules_[next_] : nullptr;
  ++next_;
  matches_ = matches_ && captured && std::string_view(captured->op) == op && captured->slots == slots &&
             captured->bytes == bytes;
  if (checking_) return false;
  if (!matches_)
    throw InvalidArgument(
        text("[", op, "] options changed since the capture so that other kernels are needed: capture the step again"));
  std::memcpy(captured->value.host, rule, bytes);
  return false;
}

void check_capture(const std::string& optimizer, const Tensor& parameter, const ParameterState& state,
                   std::size_t slots) {
  if (parameter.device().is_cpu())
    throw InvalidArgument(
        text("[", optimizer,
             "] cannot capture a step of parameters on the CPU: move the model to a GPU, or run the step eagerly"));
  for (std::size_t s = 0; s < slots; ++s)
    if (state.created_at_step[s] == state.step + 1)
      throw InvalidArgument(text("[", optimizer,
                                 "] cannot capture a parameter's first step, which allocates its state: "
                                 "run one step eagerly before capturing"));
}

Optimizer::CapturedBatch Optimizer::capture_batch(ReplayValues& values, std::size_t group, Batch& batch) {
  auto rules = std::make_shared<CapturedRules>(values, *batch.device);
  batch.captured = rules.get();
  CapturedBatch captured{group, {}, std::move(rules), batch};
  captured.batch.items.clear();
  return captured;
}

void Optimizer::replay(const CapturedOptimizerStep& captured) {
  for (const auto& [group, parameter] : captured.stepping) {
    ParameterState& state = impl_->groups[group].states[parameter];
    state.scalar_state = next_scalar_state(group, double(++state.step), state.scalar_state);
  }
  for (const CapturedBatch& each : captured.batches) {
    const ParameterState& state = impl_->groups[each.group].states[each.parameters.front()];
    Batch batch = each.batch;
    batch.step = double(state.step);
    batch.scalar_state = state.scalar_state;
    each.rules->begin_replay();
    update(each.group, batch);
  }
}

/// Checks that an optimizer is as it was before the captured step: it exists, its state is in the same memory and at
/// the same steps, and its options lead to the same kernels.
class Optimizer::StepState final : public HostStatePart {
 public:
  explicit StepState(Optimizer& optimizer) : optimizer_(&optimizer), lifetime_(optimizer.impl_) {}

  void add(std::shared_ptr<const CapturedOptimizerStep> captured) { steps_.push_back(std::move(captured)); }

  bool is_gone() const override { return lifetime_.expired(); }
  void begin() override {
    found_.clear();
    each_place([this](const Place& place) { found_.push_back(place); });
  }
  const char* find_mismatch() override {
    if (lifetime_.expired()) throw_gone_from_step("optimizer");
    if (!is_where_it_was()) return "the parameters or the state of an optimizer";
    for (const auto& step : steps_)
      for (const CapturedBatch& batch : step->batches) {
        if (!have_stepped_alike(batch)) return "the step counts of an optimizer";
        if (!have_same_kernels(batch)) return "the options of an optimizer";
      }
    return nullptr;
  }

 private:
  using Place = std::pair<const Storage*, std::int64_t>;

  // Visits each parameter and each tensor of its state.
  template <class Visit>
  void each_place(const Visit& visit) const {
    const auto look = [&](const Tensor& tensor) {
      visit(tensor.defined() ? Place(tensor.impl()->storage, tensor.impl()->offset) : Place());
    };
    for (const ParameterGroup& group : optimizer_->impl_->groups)
      for (std::size_t i = 0; i < group.parameters.size(); ++i) {
        look(group.parameters[i]);
        for (const ReplicaState& replica : group.states[i].replicas)
          for (const Tensor& slot : replica.slots) look(slot);
      }
  }
  bool is_where_it_was() const {
    std::size_t next = 0;
    bool same = true;
    each_place([&](const Place& place) { same = same && next < found_.size() && found_[next] == place, ++next; });
    return same && next == found_.size();
  }

  bool have_stepped_alike(const CapturedBatch& batch) const {
    const std::vector<ParameterState>& states = optimizer_->impl_->groups[batch.group].states;
    const ParameterState& first = states[batch.parameters.front()];
    for (const std::size_t i : batch.parameters)
      if (states[i].step != first.step || states[i].scalar_state != first.scalar_state) return false;
    return true;
  }

  bool have_same_kernels(const CapturedBatch& captured) const try {
    optimizer_->check_options(captured.group);
    return captured.rules->matches_capture([&] { optimizer_->update(captured.group, captured.batch); });
  } catch (const InvalidArgument&) {  // the step, which then runs eagerly, throws it again
    return false;
  }

  Optimizer* const optimizer_;
  const std::weak_ptr<const Impl> lifetime_;
  std::vector<Place> found_;
  std::vector<std::shared_ptr<const CapturedOptimizerStep>> steps_;
};

void Optimizer::register_with_capture(const std::shared_ptr<CapturedOptimizerStep>& captured) {
  HostState* const parts = context().host_state;
  if (!parts) return;
  StepState& state = parts->add<StepState>(impl_.get(), *this);
  if (captured) state.add(captured);
}

}  // namespace lockstep::optim
