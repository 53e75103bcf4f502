#include "autograd/record.h"

#include "core/text.h"

namespace lockstep::autograd {

void throw_released(const char* op) {
  throw AutogradError(
      text("[", op,
           "Backward] an earlier backward() freed this graph's saved tensors: pass retain_graph to that "
           "call"));
}

std::vector<Edge> gradient_edges(std::span<const Tensor> tensors) {
  std::vector<Edge> edges;
  edges.reserve(tensors.size());
  for (const Tensor& tensor : tensors) edges.push_back(gradient_edge(tensor));
  return edges;
}

void refuse_inner(const char* op, const Tensor& tensor) {
  const Meta* const meta = meta_of(tensor);
  if (!meta || !meta->grad_fn || meta->grad_fn->inner_output != meta->output) return;
  throw AutogradError(text("[", op, "] expected a tensor whose gradient is computed by itself, got an output of ",
                           meta->grad_fn->op,
                           " from which another output is computed in the same kernel: use the operations that it "
                           "stands for, one by one"));
}

void attach(const std::shared_ptr<Node>& node, std::span<Tensor> outputs) {
  node->outputs = int(outputs.size());
  int slot = 0;
  for (const Tensor& output : outputs) {
    Meta& meta = make_meta(output);
    meta.grad_fn = node;
    meta.output = slot++;
    if (meta.retained) retain_gradient(meta);
  }
}

}  // namespace lockstep::autograd
