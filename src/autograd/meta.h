// Meta: the data that autograd keeps for a tensor.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include <lockstep/tensor/tensor.h>

#include "autograd/hooks.h"
#include "autograd/node.h"
#include "autograd/replicated_parameter.h"
#include "tensor/tensor_impl.h"

namespace lockstep::autograd {

struct Meta final : AutogradState {
  Meta() = default;
  ~Meta() override;
  Meta(const Meta&) = delete;
  Meta& operator=(const Meta&) = delete;

  bool leaf_requires_grad = false;
  Tensor grad;
  std::shared_ptr<Node> grad_fn;  ///< Null for a leaf.
  int output = 0;                 ///< The index of this tensor among the outputs of grad_fn.
  std::weak_ptr<Node> accumulator;
  std::shared_ptr<Tensor> retained;  ///< The gradient of a non-leaf, kept because of retain_grad().
  HookHandle retains;                ///< The hook of grad_fn that stores `retained`.
  bool is_parameter = false;         ///< True if the tensor was made as a module's parameter.
  /// If the tensor is a parameter on one of several devices: keeps that parameter alive (replicated_parameter.h).
  std::shared_ptr<const Replica> replica;
  Hooks<std::function<Tensor(const Tensor&)>> leaf_hooks;
  Hooks<std::function<void(const Tensor&)>> accumulated_hooks;

  Tensor& kept_grad() noexcept { return retained ? *retained : grad; }

  std::string_view grad_fn_name() const noexcept override { return grad_fn ? std::string_view(grad_fn->name()) : ""; }
  bool requires_grad() const noexcept override { return leaf_requires_grad || grad_fn; }
};

/// The node that computed the tensor; null for a leaf.
inline const Node* grad_fn_of(const TensorImpl& tensor) noexcept {
  const auto* const meta = static_cast<const Meta*>(tensor.autograd.get());
  return meta ? meta->grad_fn.get() : nullptr;
}

/// True if the view's base got a new grad_fn after the view's own grad_fn was made (autograd/views.h).
inline bool has_stale_grad_fn(const TensorImpl& view) noexcept {
  if (!view.follows_base) return false;
  const Node* const now = grad_fn_of(*view.base.impl());
  return now && now != view.base_fn.load(std::memory_order_acquire);
}
void regenerate_grad_fn(const Tensor& view);

inline Meta* meta_of(const Tensor& tensor) {
  if (has_stale_grad_fn(*tensor.impl())) [[unlikely]]
    regenerate_grad_fn(tensor);
  return static_cast<Meta*>(tensor.impl()->autograd.get());
}
Meta& make_meta(const Tensor& tensor);

/// The tensor's Replica; null if the tensor is no replica, or a stale one.
inline const Replica* replica_of(const Tensor& tensor) {
  const Meta* const meta = meta_of(tensor);
  return meta && meta->replica && !meta->replica->parameter->is_stale() ? meta->replica.get() : nullptr;
}

inline bool needs_grad(const Tensor& tensor) noexcept {
  const TensorImpl& impl = *tensor.impl();
  return has_stale_grad_fn(impl) || (impl.autograd && impl.autograd->requires_grad());
}

/// Makes backward store the gradient of a non-leaf in `retained`. If the tensor was changed in place, it is the
/// gradient of the newest version.
void retain_gradient(Meta& meta);

/// To be called before a gradient is set, dropped or zeroed. Throws AutogradError during a backward that sums
/// it over replicas.
void check_idle(const char* op, const Tensor& tensor);
/// Drops the gradient of a tensor, and of its replicas. Throws as check_idle() does.
void clear_grad(const char* op, const Tensor& tensor);

}  // namespace lockstep::autograd
