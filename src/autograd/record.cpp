#include "autograd/record.h"

#include "core/text.h"

namespace lockstep::autograd {

void throw_released(const char* op) {
  throw AutogradError(text("[", op,
                           "Backward] expected a graph that still holds its saved tensors, got one that an earlier "
                           "backward() freed: pass retain_graph to that one"));
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
