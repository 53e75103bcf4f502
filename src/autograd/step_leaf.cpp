#include "autograd/step_leaf.h"

#include "autograd/meta.h"
#include "core/context.h"
#include "tensor/host_state.h"
#include "tensor/replay_values.h"

namespace lockstep::autograd {
namespace {

class LeafPart final : public HostStatePart {
 public:
  explicit LeafPart(const Tensor& leaf) : leaf_(leaf) {}

  bool is_gone() const override { return leaf_.impl()->references == 1; }
  void begin() override { found_ = State(leaf_); }
  void end(const ReplayValues& step) override {
    const Meta* const meta = meta_of(leaf_);
    left_ = meta ? meta->grad : Tensor();
    adds_ = found_.grad && step.uses(*found_.grad);
  }

  const char* find_mismatch() override {
    const State now(leaf_);
    if (now.requires_grad != found_.requires_grad) return "requires_grad of a tensor";
    if (now.storage != found_.storage) return "the memory of a parameter or other leaf tensor";
    if (now.hooks != found_.hooks || now.accumulated_hooks != found_.accumulated_hooks) return "a tensor's hooks";
    if (now.is_replica != found_.is_replica) return "the replicas of a parameter";
    if (now.is_replica) return nullptr;  // the gradient belongs to all replicas together
    return (adds_ ? now.grad == found_.grad : !now.grad == !found_.grad) ? nullptr : "a gradient";
  }
  void restore_captured() override {
    if (!found_.is_replica) make_meta(leaf_).grad = left_;
  }

 private:
  struct State {
    bool requires_grad = false, is_replica = false;
    const Storage *storage = nullptr, *grad = nullptr;
    decltype(Meta::leaf_hooks.state()) hooks;
    decltype(Meta::accumulated_hooks.state()) accumulated_hooks;

    State() = default;
    explicit State(const Tensor& leaf) : storage(leaf.impl()->storage) {
      const Meta* const meta = meta_of(leaf);
      if (!meta) return;
      requires_grad = meta->leaf_requires_grad;
      is_replica = replica_of(leaf) != nullptr;
      if (meta->grad.defined()) grad = meta->grad.impl()->storage;
      hooks = meta->leaf_hooks.state();
      accumulated_hooks = meta->accumulated_hooks.state();
    }
  };

  const Tensor leaf_;
  State found_;
  Tensor left_;
  bool adds_ = false;  // the step adds to the gradient that was there before it
};

}  // namespace

void use_in_step(const Tensor& leaf) {
  HostState* const parts = context().host_state;
  if (!parts) return;
  const ReplayValues* const captured = context().replay_values;
  if (captured && leaf.impl()->storage->made_in == captured->id()) return;  // a leaf that the step itself made
  parts->add<LeafPart>(leaf.impl(), leaf);
}

}  // namespace lockstep::autograd
