// Differentiable views, and what a change in place means to them.
//
// A view that is made while gradients are recorded knows its base: the tensor, itself no view, whose array it shows.
// The base owns the array's graph. A recorded change of a view becomes a new version of the base (CopySlices, as
// PyTorch calls it): the gradient of the new base is cut in two, the part under the view goes through the operation
// that changed it, the rest goes to the old base. A view whose base has got another grad_fn since gets a new grad_fn
// when it is used next: a part of the new base. So views that were made before see the change too.
#pragma once

#include <initializer_list>
#include <memory>
#include <utility>

#include "autograd/record.h"

namespace lockstep::autograd {

/// A view of x, differentiable if gradients are recorded; the operation records its own node.
Tensor view_of(const Tensor& x, const Shape& sizes, const Shape& strides, std::int64_t offset);

/// The view keeps the graph that it has, or has none from now on. A recorded change of the base is refused then.
void stop_following_base(const Tensor& view) noexcept;

/// After a change in place of `target`: `node`, whose first edge is the target's own, made the new values.
void attach_in_place(const std::shared_ptr<Node>& node, Tensor& target);

/// Makes `target` the result of `op`, which changed it in place, on itself and `others`. To be called only if one of
/// these requires a gradient, after check_in_place(). `body` as for record(); of the first input, the target, it may
/// not ask for gradient_place(), and it may not save the target as an output.
template <class Backward>
void record_in_place(const char* op, Tensor& target, std::initializer_list<const Tensor*> others, Backward body) {
  auto node = std::make_shared<LambdaNode<Backward>>(op, target.device(), std::move(body));
  node->edges.reserve(1 + others.size());
  node->edges.push_back(gradient_edge(target));
  for (const Tensor* other : others) node->edges.push_back(gradient_edge(*other));
  attach_in_place(node, target);
}

}  // namespace lockstep::autograd
