#include "ops/recurrent/fused_sequence.h"

namespace lockstep::recurrent {

Inputs recorded_gradients(Kind kind, const Inputs& in, const std::array<bool, kInputs>& needs, const Steps& steps,
                          const Gradients& arrived) {
  Inputs views = in;
  std::vector<Tensor> inputs, roots, seeds;
  for (std::size_t i = 0; i < kInputs; ++i)
    if (needs[i]) inputs.push_back(views[i] = in[i].view(in[i].sizes()));
  const Outputs out = composed(kind, views, steps);
  const Tensor* const outputs[] = {&out.output, &out.h, &out.c};
  for (std::size_t i = 0; i < arrived.size(); ++i) {
    if (!arrived[i].defined()) continue;
    roots.push_back(*outputs[i]);
    seeds.push_back(arrived[i]);
  }
  const std::vector<Tensor> found = gradients(roots, inputs, seeds, {.create_graph = true});
  Inputs all;
  for (std::size_t i = 0, at = 0; i < kInputs; ++i)
    if (needs[i]) all[i] = found[at++];
  return all;
}

}  // namespace lockstep::recurrent
