// The operations as methods: x.sum(1) is sum(x, 1). The free functions (lockstep/ops) have the contracts; a comment
// names the function where its name differs. A method whose name ends in an underscore changes the tensor in place,
// differentiably, and returns it; its result must have the tensor's shape, and a dtype that converts to the tensor's.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include <lockstep/core/dtype.h>
#include <lockstep/core/export.h>
#include <lockstep/core/shape.h>

namespace lockstep {

class Tensor;
class Index;
struct TensorOptions;
struct ValuesAndIndices;

/// The base class of Tensor; no other class derives from it.
class LOCKSTEP_API TensorMethods {
 public:
  // Elementwise arithmetic.
  Tensor add(const Tensor& other, double alpha = 1) const;
  Tensor add(double number) const;
  Tensor sub(const Tensor& other, double alpha = 1) const;
  Tensor sub(double number) const;
  Tensor mul(const Tensor& other) const;
  Tensor mul(double number) const;
  Tensor div(const Tensor& other) const;
  Tensor div(double number) const;
  Tensor remainder(const Tensor& other) const;
  Tensor remainder(double number) const;
  Tensor fmod(const Tensor& other) const;
  Tensor fmod(double number) const;
  Tensor neg() const;
  Tensor pow(double exponent) const;
  Tensor pow(const Tensor& exponent) const;
  Tensor maximum(const Tensor& other) const;
  Tensor minimum(const Tensor& other) const;
  Tensor lerp(const Tensor& end, double weight) const;
  Tensor lerp(const Tensor& end, const Tensor& weight) const;
  Tensor atan2(const Tensor& x) const;
  Tensor hypot(const Tensor& other) const;
  Tensor addcmul(const Tensor& a, const Tensor& b, double value = 1) const;
  Tensor addcdiv(const Tensor& a, const Tensor& b, double value = 1) const;

  // Elementwise functions.
  Tensor abs() const;
  Tensor square() const;
  Tensor reciprocal() const;
  Tensor sqrt() const;
  Tensor rsqrt() const;
  Tensor exp() const;
  Tensor expm1() const;
  Tensor log() const;
  Tensor log1p() const;
  Tensor log2() const;
  Tensor log10() const;
  Tensor sin() const;
  Tensor cos() const;
  Tensor tan() const;
  Tensor tanh() const;
  Tensor sigmoid() const;
  Tensor erf() const;
  Tensor relu() const;
  Tensor floor() const;
  Tensor ceil() const;
  Tensor trunc() const;
  Tensor round() const;
  Tensor sign() const;
  Tensor clamp(std::optional<double> min, std::optional<double> max = {}) const;
  Tensor clip(std::optional<double> min, std::optional<double> max = {}) const;  ///< clamp
  Tensor clamp_min(double min) const;
  Tensor clamp_max(double max) const;
  Tensor isnan() const;
  Tensor isinf() const;
  Tensor isfinite() const;
  Tensor nan_to_num(std::optional<double> nan = {}, std::optional<double> posinf = {},
                    std::optional<double> neginf = {}) const;

  // Comparison, logic and choice.
  Tensor eq(const Tensor& other) const;
  Tensor eq(double number) const;
  Tensor ne(const Tensor& other) const;
  Tensor ne(double number) const;
  Tensor lt(const Tensor& other) const;
  Tensor lt(double number) const;
  Tensor le(const Tensor& other) const;
  Tensor le(double number) const;
  Tensor gt(const Tensor& other) const;
  Tensor gt(double number) const;
  Tensor ge(const Tensor& other) const;
  Tensor ge(double number) const;
  Tensor logical_and(const Tensor& other) const;
  Tensor logical_or(const Tensor& other) const;
  Tensor logical_xor(const Tensor& other) const;
  Tensor logical_not() const;
  /// where(condition, *this, other).
  Tensor where(const Tensor& condition, const Tensor& other) const;
  Tensor where(const Tensor& condition, double other) const;
  Tensor masked_fill(const Tensor& mask, double value) const;
  Tensor masked_select(const Tensor& mask) const;
  Tensor nonzero() const;
  /// Returns on the host whether both have the same shape and |this - other| <= atol + rtol |other| for each element.
  bool allclose(const Tensor& other, double rtol = 1e-5, double atol = 1e-8) const;
  /// Returns on the host whether both have the same shape and elements.
  bool equal(const Tensor& other) const;

  // Reductions.
  Tensor sum() const;
  Tensor sum(const Shape& dims, bool keep_dims = false) const;
  Tensor mean() const;
  Tensor mean(const Shape& dims, bool keep_dims = false) const;
  Tensor prod() const;
  Tensor prod(const Shape& dims, bool keep_dims = false) const;
  Tensor any() const;
  Tensor any(const Shape& dims, bool keep_dims = false) const;
  Tensor all() const;
  Tensor all(const Shape& dims, bool keep_dims = false) const;
  Tensor amax(const Shape& dims, bool keep_dims = false) const;
  Tensor amin(const Shape& dims, bool keep_dims = false) const;
  Tensor max() const;
  ValuesAndIndices max(std::int64_t dim, bool keep_dims = false) const;
  Tensor max(const Tensor& other) const;  ///< maximum
  Tensor min() const;
  ValuesAndIndices min(std::int64_t dim, bool keep_dims = false) const;
  Tensor min(const Tensor& other) const;  ///< minimum
  Tensor argmax() const;
  Tensor argmax(std::int64_t dim, bool keep_dims = false) const;
  Tensor argmin() const;
  Tensor argmin(std::int64_t dim, bool keep_dims = false) const;
  Tensor var() const;
  Tensor var(const Shape& dims, std::int64_t correction = 1, bool keep_dims = false) const;
  Tensor std() const;  ///< stddev
  Tensor std(const Shape& dims, std::int64_t correction = 1, bool keep_dims = false) const;
  Tensor median() const;
  ValuesAndIndices median(std::int64_t dim, bool keep_dims = false) const;
  ValuesAndIndices kthvalue(std::int64_t k, std::int64_t dim = -1, bool keep_dims = false) const;
  Tensor quantile(double q, std::optional<std::int64_t> dim = {}, bool keep_dims = false,
                  std::string_view interpolation = "linear") const;
  Tensor quantile(const Tensor& q, std::optional<std::int64_t> dim = {}, bool keep_dims = false,
                  std::string_view interpolation = "linear") const;
  Tensor histc(std::int64_t bins = 100, double min = 0, double max = 0) const;
  Tensor norm(double p = 2) const;
  Tensor norm(double p, const Shape& dims, bool keep_dims = false) const;
  Tensor logsumexp(const Shape& dims, bool keep_dims = false) const;

  // Products.
  Tensor matmul(const Tensor& other) const;
  Tensor mm(const Tensor& other) const;
  Tensor mv(const Tensor& vector) const;
  Tensor bmm(const Tensor& other) const;
  Tensor dot(const Tensor& other) const;
  Tensor outer(const Tensor& other) const;
  Tensor addmm(const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1) const;

  // Along a dimension.
  Tensor softmax(std::int64_t dim) const;
  Tensor log_softmax(std::int64_t dim) const;
  Tensor cumsum(std::int64_t dim) const;
  Tensor cumprod(std::int64_t dim) const;
  Tensor diff(std::int64_t n = 1, std::int64_t dim = -1) const;
  ValuesAndIndices sort(std::int64_t dim = -1, bool descending = false) const;
  Tensor argsort(std::int64_t dim = -1, bool descending = false) const;
  ValuesAndIndices topk(std::int64_t count, std::int64_t dim = -1, bool greatest = true) const;
  Tensor unique() const;  ///< unique(x).values

  // Selection by index.
  Tensor index_select(std::int64_t dim, const Tensor& index) const;
  Tensor gather(std::int64_t dim, const Tensor& index) const;                         ///< gather_elements
  Tensor scatter(std::int64_t dim, const Tensor& index, const Tensor& source) const;  ///< scatter_elements
  Tensor scatter(std::int64_t dim, const Tensor& index, double value) const;
  Tensor scatter_add(std::int64_t dim, const Tensor& index, const Tensor& source) const;
  Tensor index_add(std::int64_t dim, const Tensor& index, const Tensor& source, double alpha = 1) const;
  Tensor index_copy(std::int64_t dim, const Tensor& index, const Tensor& source) const;
  Tensor index_fill(std::int64_t dim, const Tensor& index, double value) const;
  Tensor index_fill(std::int64_t dim, const Tensor& index, const Tensor& value) const;

  // Rearranged, repeated and reshaped.
  Tensor flip(const Shape& dims) const;
  Tensor roll(const Shape& shifts, const Shape& dims) const;
  Tensor repeat(const Shape& repeats) const;
  Tensor repeat_interleave(std::int64_t repeats, std::int64_t dim) const;
  Tensor tile(const Shape& repeats) const;
  Tensor tril(std::int64_t diagonal = 0) const;
  Tensor triu(std::int64_t diagonal = 0) const;
  Tensor diagonal(std::int64_t offset = 0, std::int64_t dim0 = 0, std::int64_t dim1 = 1) const;
  Tensor T() const;        ///< The dimensions in reverse order.
  Tensor squeeze() const;  ///< Removes all dimensions of size 1.
  Tensor movedim(std::int64_t from, std::int64_t to) const;
  Tensor swapaxes(std::int64_t dim0, std::int64_t dim1) const;  ///< transpose
  Tensor swapdims(std::int64_t dim0, std::int64_t dim1) const;  ///< transpose
  Tensor unflatten(std::int64_t dim, const Shape& sizes) const;
  Tensor expand_as(const Tensor& other) const;
  Tensor view_as(const Tensor& other) const;
  Tensor reshape_as(const Tensor& other) const;
  Tensor type_as(const Tensor& other) const;
  std::vector<Tensor> chunk(std::int64_t chunks, std::int64_t dim = 0) const;
  std::vector<Tensor> split(std::int64_t size, std::int64_t dim = 0) const;
  std::vector<Tensor> split(const std::vector<std::int64_t>& sizes, std::int64_t dim = 0) const;
  std::vector<Tensor> tensor_split(std::int64_t sections, std::int64_t dim = 0) const;
  std::vector<Tensor> tensor_split(const std::vector<std::int64_t>& indices, std::int64_t dim = 0) const;
  std::vector<Tensor> unbind(std::int64_t dim = 0) const;

  // New tensors of this one's dtype, on its device.
  Tensor new_empty(const Shape& sizes) const;
  Tensor new_zeros(const Shape& sizes) const;
  Tensor new_ones(const Shape& sizes) const;
  Tensor new_full(const Shape& sizes, double value) const;

  // In place.
  // Logical for bool tensors, bitwise for integers; `other` broadcasts. Throw DTypeError for floating dtypes.
  Tensor& operator&=(const Tensor& other);
  Tensor& operator|=(const Tensor& other);
  Tensor& operator^=(const Tensor& other);
  Tensor& neg_();
  Tensor& pow_(double exponent);
  Tensor& abs_();
  Tensor& sqrt_();
  Tensor& exp_();
  Tensor& log_();
  Tensor& tanh_();
  Tensor& sigmoid_();
  Tensor& relu_();
  Tensor& floor_();
  Tensor& round_();
  Tensor& clamp_(std::optional<double> min, std::optional<double> max = {});
  Tensor& clip_(std::optional<double> min, std::optional<double> max = {});  ///< clamp_
  Tensor& nan_to_num_(std::optional<double> nan = {}, std::optional<double> posinf = {},
                      std::optional<double> neginf = {});
  Tensor& fmod_(const Tensor& other);
  Tensor& fmod_(double number);
  Tensor& addcmul_(const Tensor& a, const Tensor& b, double value = 1);
  Tensor& addcdiv_(const Tensor& a, const Tensor& b, double value = 1);
  Tensor& masked_fill_(const Tensor& mask, double value);
  Tensor& scatter_(std::int64_t dim, const Tensor& index, const Tensor& source);
  Tensor& scatter_(std::int64_t dim, const Tensor& index, double value);
  Tensor& scatter_add_(std::int64_t dim, const Tensor& index, const Tensor& source);
  Tensor& index_add_(std::int64_t dim, const Tensor& index, const Tensor& source, double alpha = 1);
  Tensor& index_copy_(std::int64_t dim, const Tensor& index, const Tensor& source);
  Tensor& index_fill_(std::int64_t dim, const Tensor& index, double value);
  Tensor& index_fill_(std::int64_t dim, const Tensor& index, const Tensor& value);
  Tensor& lerp_(const Tensor& end, double weight);
  // Random numbers in place: not recorded for backward.
  Tensor& uniform_(double low = 0, double high = 1);
  Tensor& normal_(double mean = 0, double standard_deviation = 1);
  Tensor& bernoulli_(double p = 0.5);

 protected:
  TensorMethods() = default;

 private:
  const Tensor& self() const noexcept;
  template <class F>
  Tensor& change(const char* op, const F& f);
};

}  // namespace lockstep
