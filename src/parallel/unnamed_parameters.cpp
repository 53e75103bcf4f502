#include <lockstep/parallel/unnamed_parameters.h>

#include <iostream>
#include <unordered_set>
#include <utility>

#include "autograd/meta.h"
#include "autograd/record.h"
#include "core/text.h"

namespace lockstep::detail {
namespace {

using autograd::Node;

// The parameters from which the outputs were computed, except those that were used only to compute the inputs.
std::vector<Tensor> parameters_behind(std::span<const Tensor> outputs, std::span<const Tensor> inputs) {
  std::unordered_set<const Node*> seen;
  std::vector<const Node*> left;
  const auto go_to = [&](const Node* node) {
    if (node && seen.insert(node).second) left.push_back(node);
  };
  for (const Tensor& input : inputs) seen.insert(autograd::gradient_edge(input).node.get());
  for (const Tensor& output : outputs) go_to(autograd::gradient_edge(output).node.get());
  std::vector<Tensor> found;
  while (!left.empty()) {
    const Node* const node = left.back();
    left.pop_back();
    for (const autograd::Edge& edge : node->edges) go_to(edge.node.get());
    const Tensor* const leaf = node->leaf();
    if (leaf && autograd::meta_of(*leaf)->is_parameter && !autograd::replica_of(*leaf)) found.push_back(*leaf);
  }
  return found;
}

}  // namespace

void UnnamedParameters::check_outputs(const nn::ModuleBase& module, std::span<const Tensor> outputs) {
  const std::vector<Tensor> inputs = std::exchange(inputs_, {});
  if (!autograd::any_records(outputs)) return;
  is_done_ = true;
  std::unordered_set<const TensorImpl*> named;
  for (const Tensor& parameter : module.parameters()) named.insert(parameter.impl());
  std::string shapes;
  for (const Tensor& parameter : parameters_behind(outputs, inputs))
    if (!named.contains(parameter.impl())) shapes += text(shapes.empty() ? "" : ", ", parameter.sizes());
  if (shapes.empty()) return;
  std::cerr << text("[members] the model computes with parameters that members() does not name, of shapes ", shapes,
                    ": nothing trains, moves or saves them. Name their layers there, or use them under NoGrad\n");
}

}  // namespace lockstep::detail
