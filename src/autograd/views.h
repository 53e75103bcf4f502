// Differentiable views and in-place changes.
//
// A view that is made while gradients are recorded refers to its base: the tensor whose array the view shows. A base is
// not itself a view. The base owns the array's graph. A recorded in-place change of a view makes a new version of the
// base (PyTorch's CopySlices). The gradient of the new base is split: the view's part goes through the operation that
// changed the view, the rest goes to the old base. If the base has got a newer grad_fn, the next use of a view gives
// the view a new grad_fn, AsStrided of the new base. So older views include the change too.
#pragma once

#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "autograd/record.h"

namespace lockstep::autograd {

/// A view of x, differentiable if gradients are recorded; the operation records its own node.
Tensor view_of(const Tensor& x, const Shape& sizes, const Shape& strides, std::int64_t offset);

/// Makes the view keep the graph that it has, if any, instead of following its base. A later in-place change of
/// the base that is recorded for backward throws AutogradError.
void stop_following_base(const Tensor& view) noexcept;

/// Called after an in-place change of `target`. `node` computed the values; its first edge is the old target's.
void attach_in_place(const std::shared_ptr<Node>& node, Tensor& target);

/// Records that `op` changed `target` in place, with values computed from the old `target` and `others`. Call this
/// after check_in_place(), and only if one of these tensors requires a gradient. `body` is as for record(), but must
/// not call grad_bucket_view() for the first input (the target), and must not save the target as an output.
template <class Backward>
void record_in_place(const char* op, Tensor& target, std::initializer_list<const Tensor*> others, Backward body) {
  std::vector<Edge> edges;
  edges.reserve(1 + others.size());
  edges.push_back(gradient_edge(target));
  for (const Tensor* other : others) edges.push_back(gradient_edge(*other));
  attach_in_place(std::make_shared<LambdaNode<Backward>>(op, target.device(), std::move(edges), std::move(body)),
                  target);
}

}  // namespace lockstep::autograd
