// The grad accumulator of a leaf.
#include <mutex>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/core/error.h>

#include "autograd/record.h"
#include "core/ranked_mutex.h"
#include "core/text.h"
#include "tensor/copy.h"

namespace lockstep::autograd {
namespace {

// False if the leaf was frozen after the forward operation. For all replicas of a parameter, the primary's
// requires_grad decides.
bool takes_gradients(const Tensor& leaf) {
  const Replica* const replica = replica_of(leaf);
  return needs_grad(replica ? replica->parameter->replicas()[0].tensor : leaf);
}

class Accumulate final : public Node {
 public:
  explicit Accumulate(const Tensor& leaf) : Node("Accumulate", leaf.device(), {}, NodeKind::leaf), leaf_(leaf) {}

  Gradients backward(const Gradients& gradients) override {
    Meta& meta = *meta_of(leaf_);
    const Replica* const replica = replica_of(leaf_);
    const auto listener = replica ? replica->parameter->listener() : nullptr;  // if set, runs the hooks in its end()
    if (gradients[0].defined() && takes_gradients(leaf_)) {
      Tensor gradient = gradients[0];
      if (!listener) meta.leaf_hooks.call_each([&](const auto& hook) { gradient = apply_hook(op, hook, gradient); });
      check(gradient);
      accumulate(meta, gradient, gradient.is_same(gradients[0]) ? 2 : 1);
      if (!listener) meta.accumulated_hooks.call_each([&](const auto& hook) { hook(leaf_); });
    }
    if (listener) listener->ready(*replica);
    return {};
  }
  const Tensor* leaf() const noexcept override { return &leaf_; }

 private:
  void accumulate(Meta& meta, const Tensor& gradient, std::uint32_t handles) {
    const std::scoped_lock lock(mutex_);
    if (const Replica* const replica = replica_of(leaf_))
      replica->parameter->accumulate(*replica, gradient);
    else if (!meta.grad.defined())
      meta.grad = kept(gradient, handles);
    else if (grad_enabled())
      meta.grad = meta.grad.clone().add_(gradient);
    else
      meta.grad.add_(gradient);
  }

  // The leaf may have moved to another device or dtype since the forward operation.
  void check(const Tensor& gradient) const {
    const TensorImpl &leaf = *leaf_.impl(), &got = *gradient.impl();
    if (leaf.storage->device == got.storage->device && leaf.dtype == got.dtype && leaf.sizes == got.sizes) return;
    throw AutogradError(text("[backward] expected a gradient like its leaf tensor, which is ", leaf.sizes, " of ",
                             leaf.dtype, " on ", leaf_.device(), ", got ", got.sizes, " of ", got.dtype, " on ",
                             gradient.device(), ": the leaf was moved or converted after forward. Run forward again"));
  }

  // Returns a copy if there are other references to the gradient (beyond `handles`) or its storage, or if the gradient
  // is an expanded view or a small part of a large array. Else returns the gradient itself.
  static Tensor kept(const Tensor& gradient, std::uint32_t handles) {
    const TensorImpl& impl = *gradient.impl();
    const bool own = impl.references == handles && impl.storage->references == 1 && impl.contiguous &&
                     impl.storage->bytes == std::size_t(impl.numel) * size_of(impl.dtype);
    return own ? gradient : gradient.clone();
  }

  Tensor leaf_;
  RankedMutex<LockRank::accumulator> mutex_;  // several backwards may accumulate at once
};

}  // namespace

Edge gradient_edge(const Tensor& tensor) {
  if (!needs_grad(tensor)) return {};
  Meta& meta = *meta_of(tensor);
  if (meta.grad_fn) return {meta.grad_fn, meta.output};
  // Several replicas' threads may ask for the accumulator of one leaf at once; the first makes it.
  static RankedMutex<LockRank::gradient_edge> mutex;
  const std::scoped_lock lock(mutex);
  std::shared_ptr<Node> accumulator = meta.accumulator.lock();
  if (!accumulator) meta.accumulator = accumulator = std::make_shared<Accumulate>(tensor);
  return {accumulator, 0};
}

Tensor grad_bucket_view(int input) {
  const RunningNode* const running = RunningNode::current();
  if (!running || grad_enabled()) return {};
  const Edge& edge = running->node->edges[std::size_t(input)];
  const Tensor* const leaf = edge.node ? edge.node->leaf() : nullptr;
  if (!leaf) return {};
  const Replica* const replica = replica_of(*leaf);
  if (!replica || !meta_of(*leaf)->leaf_hooks.empty() || !running->in.is_only_gradient(edge)) return {};
  if (!takes_gradients(*leaf)) return {};
  return replica->parameter->grad_bucket_view(*replica);
}

}  // namespace lockstep::autograd
