// The parts that layer_norm, rms_norm, group_norm and batch_norm share: how they are recorded, the normalization of
// rows, and gradients that are composed of operations.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <lockstep/tensor/tensor.h>

#include "ops/record.h"
#include "tensor/tensor_impl.h"

namespace lockstep {

/// Which gradients of a norm are needed.
struct NormNeeds {
  bool x, weight, bias;
};
/// The gradients of a norm. Gradients that were not computed are undefined tensors.
struct NormGradients {
  Tensor x, weight, bias;
};

/// Records y = norm(x, weight, bias); weight and bias may be undefined. backward(g, x, weight, needs) returns at least
/// the needed gradients.
template <class Backward>
void record_norm(const char* node, Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias,
                 Backward backward) {
  const bool weighted = weight.defined(), biased = bias.defined();
  std::vector<Tensor> inputs = {x};
  if (weighted) inputs.push_back(weight);
  if (biased) inputs.push_back(bias);
  if (!autograd::any_records(inputs)) return;
  const NormNeeds needs = {needs_grad(x), weighted && needs_grad(weight), biased && needs_grad(bias)};
  autograd::record_many(node, std::span(&y, 1), inputs,
                        [backward = std::move(backward), needs, weighted, biased, saved_x = Saved(x),
                         saved_weight = Saved(weight)](const Tensor& g) {
                          const NormGradients of = backward(g, saved_x.get(), saved_weight.get(), needs);
                          Gradients gradients = {needs.x ? of.x : Tensor()};
                          if (weighted) gradients.push_back(needs.weight ? of.weight : Tensor());
                          if (biased) gradients.push_back(needs.bias ? of.bias : Tensor());
                          return gradients;
                        });
}

/// The address of the tensor's elements; null if the tensor is undefined.
template <class T>
T* data_or_null(const Tensor& tensor) {
  return tensor.defined() ? reinterpret_cast<T*>(tensor.impl()->data()) : nullptr;
}

/// A norm over rows.
struct RowNorm {
  const char *op, *node, *gradient;  ///< The names of the operation, of its node, and of the gradient's kernel.
  bool centered = true;              ///< True: subtracts the mean; false: there is a weight and no bias.
};

/// Normalizes each row of x [rows, length]; weight, bias: [length], or undefined. Recorded.
Tensor normalize_rows(const RowNorm& norm, const Tensor& x, const Tensor& weight, const Tensor& bias, double eps);

/// The dimensions of x that a row has, and those over which the gradients of weight and bias are summed.
struct NormDims {
  Shape of_row, of_sums;
};
/// The gradients of a norm, differentiable themselves. The weight broadcasts against x, or is undefined.
/// `of_parameters`: the dtype of the gradients of weight and bias, if it is not x's.
NormGradients norm_gradients_by_ops(const Tensor& g, const Tensor& x, const Tensor& weight, const NormNeeds& needs,
                                    const NormDims& dims, bool centered, double eps,
                                    std::optional<DType> of_parameters = {});

}  // namespace lockstep
