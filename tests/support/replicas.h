// Replicas of a parameter, for tests that examine each of them, or create some without a model.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "autograd/meta.h"
#include "autograd/replicated_parameter.h"

namespace lockstep::testing {

/// All replicas but the primary.
inline std::vector<Tensor> other_replicas(const Tensor& parameter) {
  std::vector<Tensor> others;
  if (const autograd::Replica* const own = autograd::replica_of(parameter))
    for (const autograd::Replica& replica : own->parameter->replicas().subspan(1)) others.push_back(replica.tensor);
  return others;
}

/// Replicas with gradients of their own. The primary keeps them alive.
class LooseReplicas final : public autograd::ReplicatedParameter {
 public:
  static void attach(const Tensor& primary, const std::vector<Tensor>& others) {
    const auto all = std::make_shared<LooseReplicas>();
    all->replicas_.reserve(1 + others.size());
    all->replicas_.push_back({all.get(), 0, {}, {}});  // without its tensor, which would be a reference cycle
    for (const Tensor& other : others) {
      all->replicas_.push_back({all.get(), all->replicas_.size(), other, {}});
      const std::shared_ptr<void> nobody;
      autograd::make_meta(other).replica = {nobody, &all->replicas_.back()};
    }
    all->primary_ = &autograd::make_meta(primary);
    all->primary_->replica = {all, &all->replicas_.front()};
  }
  static void detach(const Tensor& primary) {
    for (const Tensor& other : other_replicas(primary)) autograd::make_meta(other).replica.reset();
    autograd::make_meta(primary).replica.reset();
  }

  std::shared_ptr<autograd::GradientListener> listener() const noexcept override { return nullptr; }
  Tensor grad_bucket_view(const autograd::Replica&) const override { return {}; }
  void accumulate(const autograd::Replica&, const Tensor&) override {}
  void check_idle(const char*) const override {}
  void complete_gradient() override {}
  void set_gradient(const autograd::Replica& replica, const Tensor& gradient) override {
    (replica.index == 0 ? *primary_ : autograd::make_meta(replica.tensor)).grad = gradient;
    if (replica.index > 0 || gradient.defined()) return;
    for (const autograd::Replica& other : replicas().subspan(1)) autograd::make_meta(other.tensor).grad = Tensor();
  }
  void reconcile() override {}
  void gradient_changed() override {}
  void all_gather(std::span<autograd::ReplicatedParameter* const>) override {}
  std::vector<Tensor> all_gather_numbers(std::span<const Tensor>) override { return {}; }

 private:
  autograd::Meta* primary_ = nullptr;
};

}  // namespace lockstep::testing
