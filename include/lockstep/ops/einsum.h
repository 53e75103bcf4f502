// Products of tensors over named or listed dimensions, made of permutations and matrix products. Differentiable.
// Operands of a contraction have one floating dtype, else DTypeError; ShapeError names the sizes that do not agree.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// Einstein summation: einsum("bij,bjk->bik", {a, b}). Each dimension of an operand has a letter; dimensions with the
/// same letter are multiplied, and letters that are not in the result are summed over. As in PyTorch, `...` stands for
/// dimensions that broadcast, a letter twice in an operand takes the diagonal, sizes of 1 broadcast, and without `->`
/// the result has `...` and then, in order, the letters that occur once. Operands are multiplied from the left. Throws
/// InvalidArgument for an invalid equation.
LOCKSTEP_API Tensor einsum(std::string_view equation, std::span<const Tensor> operands);

/// einsum() of a list of operands.
inline Tensor einsum(std::string_view equation, std::initializer_list<Tensor> operands) {
  return einsum(equation, std::span(operands.begin(), operands.size()));
}

/// einsum() of operands as arguments: einsum("bij,bjk->bik", a, b).
template <std::convertible_to<Tensor>... More>
Tensor einsum(std::string_view equation, const Tensor& first, const More&... more) {
  return einsum(equation, {first, more...});
}

/// Sums the products over the last `dims` dimensions of a and the first `dims` of b.
LOCKSTEP_API Tensor tensordot(const Tensor& a, const Tensor& b, std::int64_t dims = 2);
/// Sums the products over a_dims of a and b_dims of b, pair by pair. The result has the other dimensions of a, then
/// those of b.
LOCKSTEP_API Tensor tensordot(const Tensor& a, const Tensor& b, const Shape& a_dims, const Shape& b_dims);

/// The Kronecker product: each element of a times the whole of b. The operand of lower rank gets leading sizes of 1.
LOCKSTEP_API Tensor kron(const Tensor& a, const Tensor& b);

/// out[..., o] = sum over i, j of a[..., i] weight[o, i, j] b[..., j] + bias[o]. a: [..., in1], b: [..., in2] with the
/// same leading sizes, weight: [out, in1, in2], bias: [out] or undefined.
LOCKSTEP_API Tensor bilinear(const Tensor& a, const Tensor& b, const Tensor& weight, const Tensor& bias = {});

}  // namespace lockstep
