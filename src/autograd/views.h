// Differentiable views and in-place changes.
//
// A view that is made while gradients are recorded refers to its base: the tensor, itself not a view, whose array it
// shows. The base owns the array's graph. A recorded in-place change of a view makes a new version of the base
// (PyTorch's CopySlices): the gradient of the new base is split; the view's part goes through the operation that
// changed it, the rest to the old base. A view whose base has a newer grad_fn gets a new grad_fn when it is used next:
// AsStrided of the new base. So older views see the change too.
#pragma once

#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "autograd/record.h"

namespace lockstep::autograd {

/// A view of x, differentiable if gradients are recorded; the operation records its own node.
Tensor view_of(const Tensor& x, const Shape& sizes, const Shape& strides, std::int64_t offset);

/// From now on the view keeps its own graph, or has none. Recorded in-place changes of the base throw AutogradError
/// then.
void stop_following_base(const Tensor& view) noexcept;

/// Called after an in-place change of `target`: `node`, whose first edge is the old target's, computed the new values.
void attach_in_place(const std::shared_ptr<Node>& node, Tensor& target);

/// Records that `op` changed `target` in place, computed from the old `target` and `others`. To be called only if one
/// of these requires a gradient, after check_in_place(). `body` is as for record(), but may not call grad_bucket_view()
/// for the first input, the target, and may not save the target as an output.
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
