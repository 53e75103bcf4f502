#include <lockstep/ops/activation.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/compare.h>
#include <lockstep/ops/distance.h>
#include <lockstep/ops/einsum.h>
#include <lockstep/ops/normalization.h>
#include <lockstep/ops/unary.h>

#include "onnx/rows.h"

namespace lockstep::onnx {
namespace {

// 0 between -lambd and lambd; elsewhere moved towards 0 by the bias.
Tensors shrunk(const Node& node, const Tensors& x) {
  if (!is_floating(x[0].dtype())) throw NotApplicable("shrinks of integers");
  const double lambda = node.number("lambd", 0.5), bias = node.number("bias", 0);
  return {where(lt(x[0], -lambda), x[0] + bias, where(gt(x[0], lambda), x[0] - bias, x[0] * 0))};
}

// PyTorch's slope and offset are constants.
Tensors hard_sigmoid(const Node& node, const Tensors& x) {
  const double alpha = node.number("alpha", 0.2), beta = node.number("beta", 0.5);
  return {hardsigmoid((x[0] * alpha + (beta - 0.5)) * 6)};
}

Tensors selu_of(const Node& node, const Tensors& x) {
  const double gamma = node.number("gamma", 1.05070102214813232421875);
  return {elu(x[0], node.number("alpha", 1.67326319217681884765625)) * gamma};
}

// ONNX broadcasts the slope as NumPy does, prelu() along the channels.
Tensors prelu_of(const Node&, const Tensors& x) {
  if (x[1].numel() == 1) return {prelu(x[0], x[1].reshape({1}))};
  return {where(lt(x[0], 0.0), x[0] * x[1], x[0])};
}

Tensors lp_normalized(const Node& node, const Tensors& x) {
  return {normalize(x[0], {.p = double(node.integer("p", 2)), .dim = node.integer("axis", -1)})};
}

// Normalizes over the dimensions from the axis on.
Tensors rms_normalized(const Node& node, const Tensors& x) {
  std::int64_t axis = node.integer("axis", -1);
  Shape normalized;
  for (axis = axis < 0 ? axis + x[0].dim() : axis; axis < x[0].dim(); ++axis) normalized.push_back(x[0].size(axis));
  return {rms_norm(x[0], normalized, x[1].expand(normalized), node.number("epsilon", 1e-5))};
}

}  // namespace

void add_functional_rows(Table& table) {
  table.merge(Table{
      {"Celu", [](const Node& n, const Tensors& x) { return Tensors{celu(x[0], n.number("alpha", 1))}; }},
      {"Einsum", [](const Node& n, const Tensors& x) { return Tensors{einsum(n.text("equation", ""), x)}; }},
      {"HardSigmoid", hard_sigmoid},
      {"LpNormalization", lp_normalized},
      {"PRelu", prelu_of},
      {"RMSNormalization", rms_normalized},
      {"Selu", selu_of},
      {"Shrink", shrunk},
      {"Softsign", [](const Node&, const Tensors& x) { return Tensors{softsign(x[0])}; }},
      {"ThresholdedRelu",
       [](const Node& n, const Tensors& x) { return Tensors{threshold(x[0], n.number("alpha", 1), 0)}; }},
  });
}

}  // namespace lockstep::onnx
