#include "optim/captured_optimizer.h"

#include <cstring>
#include <string_view>

#include <lockstep/core/error.h>

#include "core/context.h"
#include "core/text.h"
#include "tensor/step_parts.h"

namespace lockstep::optim {

bool KeptRules::put(const char* op, unsigned slots, const void* rule, std::size_t bytes) {
  if (values_) {
    rules_.push_back({op, slots, bytes, values_->add(*device_, rule, bytes)});
    return true;
  }
  const Kept* const kept = next_ < rules_.size() ? &rules_[next_] : nullptr;
  ++next_;
  fits_ = fits_ && kept && std::string_view(kept->op) == op && kept->slots == slots && kept->bytes == bytes;
  if (looks_) return false;
  if (!fits_)
    throw InvalidArgument(text("[", op, "] expected the options with which the step was captured, got others"));
  std::memcpy(kept->value.host, rule, bytes);
  return false;
}

Optimizer::KeptBatch Optimizer::captured(StepValues& values, std::size_t group, Batch& batch) {
  if (batch.device->device.is_cpu())
    throw InvalidArgument(
        text("[", impl_->name, "] expected parameters on GPUs in a captured step, got some on the CPU"));
  if (batch.fresh)
    throw InvalidArgument(text("[", impl_->name, "] expected state that was there before the step is captured, got a ",
                               "parameter's first step: take one eagerly before"));
  auto rules = std::make_shared<KeptRules>(values, *batch.device);
  batch.kept = rules.get();
  KeptBatch kept{group, {}, std::move(rules), batch};
  kept.batch.items.clear();
  return kept;
}

void Optimizer::step_again(const KeptStep& kept) {
  for (const auto& [group, parameter] : kept.stepping) {
    ParameterState& state = impl_->groups[group].states[parameter];
    state.number = next_number(group, double(++state.step), state.number);
  }
  for (const KeptBatch& each : kept.batches) {
    const ParameterState& state = impl_->groups[each.group].states[each.parameters.front()];
    Batch batch = each.batch;
    batch.step = double(state.step);
    batch.number = state.number;
    each.rules->begin_again();
    update(each.group, batch);
  }
}

/// Checks that an optimizer is still as the captured step found it: alive, with its state in the same memory and at the
/// same steps, and with options that need the same kernels.
class Optimizer::StepState final : public StepPart {
 public:
  explicit StepState(Optimizer& optimizer) : optimizer_(&optimizer), lifetime_(optimizer.impl_) {}

  void add(std::shared_ptr<const KeptStep> kept) { steps_.push_back(std::move(kept)); }

  bool is_gone() const override { return lifetime_.expired(); }
  void begin() override {
    found_.clear();
    each_place([this](const Place& place) { found_.push_back(place); });
  }
  const char* change() override {
    if (lifetime_.expired()) throw_gone_from_step("optimizer");
    if (!is_where_it_was()) return "the parameters or the state of an optimizer";
    for (const auto& step : steps_)
      for (const KeptBatch& batch : step->batches) {
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

  bool have_stepped_alike(const KeptBatch& batch) const {
    const std::vector<ParameterState>& states = optimizer_->impl_->groups[batch.group].states;
    const ParameterState& first = states[batch.parameters.front()];
    for (const std::size_t i : batch.parameters)
      if (states[i].step != first.step || states[i].number != first.number) return false;
    return true;
  }

  bool have_same_kernels(const KeptBatch& kept) const try {
    optimizer_->check_options(kept.group);
    return kept.rules->fit([&] { optimizer_->update(kept.group, kept.batch); });
  } catch (const InvalidArgument&) {  // the step itself will throw
    return false;
  }

  Optimizer* const optimizer_;
  const std::weak_ptr<const Impl> lifetime_;
  std::vector<Place> found_;
  std::vector<std::shared_ptr<const KeptStep>> steps_;
};

void Optimizer::use_in_step(const std::shared_ptr<KeptStep>& kept) {
  StepParts* const parts = context().step_parts;
  if (!parts) return;
  StepState& state = parts->add<StepState>(impl_.get(), *this);
  if (kept) state.add(kept);
}

}  // namespace lockstep::optim
