#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/loss.h>
#include <lockstep/ops/normalization.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/softmax.h>
#include <lockstep/ops/unary.h>

#include "onnx/rows.h"

namespace lockstep::onnx {
namespace {

Reduction reduction_of(const Node& node) {
  const std::string name = node.text("reduction", "mean");
  return name == "mean" ? Reduction::mean : name == "sum" ? Reduction::sum : Reduction::none;
}

// Has log-probabilities as a second output if the case needs them.
Tensors softmax_cross_entropy(const Node& node, const Tensors& x) {
  const Tensor loss = cross_entropy(
      x[0], x[1],
      {.weight = input(x, 2), .ignore_index = node.integer("ignore_index", -100), .reduction = reduction_of(node)});
  return {loss, log_softmax(x[0], 1)};
}

Tensors negative_log_likelihood(const Node& node, const Tensors& x) {
  return {nll_loss(
      x[0], x[1],
      {.weight = input(x, 2), .ignore_index = node.integer("ignore_index", -100), .reduction = reduction_of(node)})};
}

// ONNX's momentum is the part that is kept.
Tensors batch_normalization(const Node& node, const Tensors& x) {
  const bool training = node.integer("training_mode", 0) != 0;
  const Tensor mean = x[3].clone(), variance = x[4].clone();
  const double momentum = 1 - node.number("momentum", 0.9);
  if (!training)
    return {batch_norm(x[0], mean, variance, x[1], x[2], {.training = false, .eps = node.number("epsilon", 1e-5)})};
  const Tensor y = batch_norm(x[0], mean, variance, x[1], x[2],
                              {.training = true, .momentum = momentum, .eps = node.number("epsilon", 1e-5)});
  // ONNX updates with the biased variance (correction 0), PyTorch with the unbiased one.
  const double count = double(x[0].numel()) / double(x[0].size(1));
  const Tensor kept = x[4] * (1 - momentum);
  return {y, mean, kept + (variance - kept) * ((count - 1) / count)};
}

Tensors layer_normalization(const Node& node, const Tensors& x) {
  const int rank = x[0].dim();
  std::int64_t axis = node.integer("axis", -1);
  if (axis < 0) axis += rank;
  Shape normalized, dims;
  for (std::int64_t d = axis; d < rank; ++d) {
    normalized.push_back(x[0].size(d));
    dims.push_back(d);
  }
  const double eps = node.number("epsilon", 1e-5);
  return {layer_norm(x[0], normalized, x[1], input(x, 2), eps), mean(x[0], dims, true),
          rsqrt(var(x[0], dims, {.correction = 0, .keep_dims = true}) + eps)};
}

Tensors instance_normalization(const Node& node, const Tensors& x) {
  return {group_norm(x[0], x[0].size(1), x[1], x[2], node.number("epsilon", 1e-5))};
}

// In evaluation dropout is the identity.
Tensors dropped(const Node& node, const Tensors& x) {
  const bool training = input(x, 2).defined() && input(x, 2).item<double>() != 0;
  const double ratio = input(x, 1).defined() ? x[1].item<double>() : node.number("ratio", 0.5);
  if (training && ratio != 0) throw NotApplicable("random numbers of another generator");
  if (node.outputs.size() > 1) throw NotApplicable("the mask of dropout");
  return {x[0]};
}

}  // namespace

void add_layer_rows(Table& table) {
  table.merge(Table{
      {"BatchNormalization", batch_normalization},
      {"Dropout", dropped},
      {"InstanceNormalization", instance_normalization},
      {"LayerNormalization", layer_normalization},
      {"NegativeLogLikelihoodLoss", negative_log_likelihood},
      {"SoftmaxCrossEntropyLoss", softmax_cross_entropy},
  });
}

}  // namespace lockstep::onnx
