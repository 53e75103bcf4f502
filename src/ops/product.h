// Matrix products on the backend; nothing is recorded.
#pragma once

#include <lockstep/tensor/tensor.h>

#include "runtime/fused_ops/activation.h"

namespace lockstep {

/// Throws DeviceMismatch, or DTypeError unless both have one floating dtype.
void check_factors(const char* op, const Tensor& a, const Tensor& b);

struct ProductOptions {
  double alpha = 1;
  double beta = 0;                           ///< Factor of `out`'s previous values.
  Tensor bias = {};                          ///< [n], dense, added to every row, or undefined. Needs beta == 0.
  Activation activation = Activation::none;  ///< Applied to the sum. Needs beta == 0, except Activation::none.
};

/// out = activation(alpha a b + beta out (+ bias)), matrix by matrix. a: [..., m, k], b: [..., k, n], broadcast to
/// out's leading dimensions without copies; out: [..., m, n], each matrix dense. out and bias have the dtype of a and
/// b, or are float32 beside 16-bit factors.
void multiply(const Tensor& out, const Tensor& a, const Tensor& b, const ProductOptions& options = {});

/// out = a b, and sums = the sum of each row of a, for single matrices, in one operation. Returns false, and does
/// nothing, if the device has no such operation. sums: [m], dense, of out's dtype.
bool multiply_and_sum_rows(const Tensor& out, const Tensor& sums, const Tensor& a, const Tensor& b);

}  // namespace lockstep
