// Records operations as nodes of the graph.
//
//   Tensor y = ...;
//   const auto backward = [y = Saved(y, kOutput)](const Tensor& gy) { return Gradients{gy * y.get()}; };
//   if (records(x)) record("Exp", y, {&x}, backward);
#pragma once

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/autograd/grad_mode.h>

#include "autograd/meta.h"
#include "autograd/node.h"
#include "autograd/saved.h"

namespace lockstep::autograd {

/// True if an operation on these inputs must be recorded.
template <class... Tensors>
bool records(const Tensors&... inputs) noexcept {
  return (needs_grad(inputs) || ...) && grad_enabled();
}
inline bool any_records(std::span<const Tensor> inputs) noexcept {
  return grad_enabled() && std::any_of(inputs.begin(), inputs.end(), needs_grad);
}

/// The edge for the gradient of `tensor`: to its grad_fn, or to its grad accumulator if it is a leaf; null if it
/// requires no gradient.
Edge gradient_edge(const Tensor& tensor);
/// The edges of several tensors.
std::vector<Edge> gradient_edges(std::span<const Tensor> tensors);

/// To be called by a node in backward. Returns the bucket memory for the gradient of the node's input `input`; an
/// undefined Tensor if there is none. The node may write the gradient there, on its stream, and return this tensor:
/// that saves a copy.
Tensor grad_bucket_view(int input);

[[noreturn]] void throw_released(const char* op);

/// A node whose backward is a function object: Gradients(const Tensor& gy) for one output, or
/// Gradients(const Gradients&) for several.
template <class Backward>
class LambdaNode final : public Node {
 public:
  LambdaNode(const char* forward_op, const Device& device, std::vector<Edge> inputs, Backward body)
      : Node(forward_op, device, std::move(inputs)), body_(std::move(body)) {}

  Gradients backward(const Gradients& output_gradients) override {
    if (!body_) throw_released(op);
    if constexpr (std::is_invocable_v<Backward&, const Tensor&>) {
      return (*body_)(output_gradients[0]);
    } else {
      return (*body_)(output_gradients);
    }
  }
  void release() override { body_.reset(); }

 private:
  std::optional<Backward> body_;
};

/// Throws AutogradError naming `op` if the tensor is an inner output of its operation (Node::inner_output), whose whole
/// gradient is not computed.
void refuse_inner(const char* op, const Tensor& tensor);

/// Makes `node` the grad_fn of the outputs.
void attach(const std::shared_ptr<Node>& node, std::span<Tensor> outputs);

/// Records `output` as the result of operation `op` on `inputs`. To be called only if records(inputs...).
template <class Backward>
void record(const char* op, Tensor& output, std::initializer_list<const Tensor*> inputs, Backward body) {
  std::vector<Edge> edges;
  edges.reserve(inputs.size());
  for (const Tensor* input : inputs) edges.push_back(gradient_edge(*input));
  attach(std::make_shared<LambdaNode<Backward>>(op, output.device(), std::move(edges), std::move(body)),
         std::span(&output, 1));
}

/// Like the function above, for any number of inputs and outputs.
template <class Backward>
void record_many(const char* op, std::span<Tensor> outputs, std::span<const Tensor> inputs, Backward body) {
  attach(std::make_shared<LambdaNode<Backward>>(op, outputs[0].device(), gradient_edges(inputs), std::move(body)),
         outputs);
}

}  // namespace lockstep::autograd
