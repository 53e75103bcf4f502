// The operations as methods of Tensor: each calls the free function of the same name.
#include <lockstep/ops/activation.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/compare.h>
#include <lockstep/ops/index.h>
#include <lockstep/ops/join.h>
#include <lockstep/ops/layout.h>
#include <lockstep/ops/linalg.h>
#include <lockstep/ops/order.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/search.h>
#include <lockstep/ops/softmax.h>
#include <lockstep/ops/unary.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep {

const Tensor& TensorMethods::self() const noexcept { return static_cast<const Tensor&>(*this); }

Tensor TensorMethods::add(const Tensor& other, double alpha) const { return lockstep::add(self(), other, alpha); }
Tensor TensorMethods::add(double number) const { return lockstep::add(self(), number); }
Tensor TensorMethods::sub(const Tensor& other, double alpha) const { return lockstep::sub(self(), other, alpha); }
Tensor TensorMethods::sub(double number) const { return lockstep::sub(self(), number); }
Tensor TensorMethods::mul(const Tensor& other) const { return lockstep::mul(self(), other); }
Tensor TensorMethods::mul(double number) const { return lockstep::mul(self(), number); }
Tensor TensorMethods::div(const Tensor& other) const { return lockstep::div(self(), other); }
Tensor TensorMethods::div(double number) const { return lockstep::div(self(), number); }
Tensor TensorMethods::remainder(const Tensor& other) const { return lockstep::remainder(self(), other); }
Tensor TensorMethods::remainder(double number) const { return lockstep::remainder(self(), number); }
Tensor TensorMethods::fmod(const Tensor& other) const { return lockstep::fmod(self(), other); }
Tensor TensorMethods::fmod(double number) const { return lockstep::fmod(self(), number); }
Tensor TensorMethods::neg() const { return lockstep::neg(self()); }
Tensor TensorMethods::pow(double exponent) const { return lockstep::pow(self(), exponent); }
Tensor TensorMethods::pow(const Tensor& exponent) const { return lockstep::pow(self(), exponent); }
Tensor TensorMethods::maximum(const Tensor& other) const { return lockstep::maximum(self(), other); }
Tensor TensorMethods::minimum(const Tensor& other) const { return lockstep::minimum(self(), other); }
Tensor TensorMethods::lerp(const Tensor& end, double weight) const { return lockstep::lerp(self(), end, weight); }
Tensor TensorMethods::lerp(const Tensor& end, const Tensor& weight) const {
  return lockstep::lerp(self(), end, weight);
}
Tensor TensorMethods::atan2(const Tensor& x) const { return lockstep::atan2(self(), x); }
Tensor TensorMethods::hypot(const Tensor& other) const { return lockstep::hypot(self(), other); }
Tensor TensorMethods::addcmul(const Tensor& a, const Tensor& b, double value) const {
  return lockstep::addcmul(self(), a, b, value);
}
Tensor TensorMethods::addcdiv(const Tensor& a, const Tensor& b, double value) const {
  return lockstep::addcdiv(self(), a, b, value);
}
Tensor TensorMethods::abs() const { return lockstep::abs(self()); }
Tensor TensorMethods::square() const { return lockstep::square(self()); }
Tensor TensorMethods::reciprocal() const { return lockstep::reciprocal(self()); }
Tensor TensorMethods::sqrt() const { return lockstep::sqrt(self()); }
Tensor TensorMethods::rsqrt() const { return lockstep::rsqrt(self()); }
Tensor TensorMethods::exp() const { return lockstep::exp(self()); }
Tensor TensorMethods::expm1() const { return lockstep::expm1(self()); }
Tensor TensorMethods::log() const { return lockstep::log(self()); }
Tensor TensorMethods::log1p() const { return lockstep::log1p(self()); }
Tensor TensorMethods::log2() const { return lockstep::log2(self()); }
Tensor TensorMethods::log10() const { return lockstep::log10(self()); }
Tensor TensorMethods::sin() const { return lockstep::sin(self()); }
Tensor TensorMethods::cos() const { return lockstep::cos(self()); }
Tensor TensorMethods::tan() const { return lockstep::tan(self()); }
Tensor TensorMethods::tanh() const { return lockstep::tanh(self()); }
Tensor TensorMethods::sigmoid() const { return lockstep::sigmoid(self()); }
Tensor TensorMethods::erf() const { return lockstep::erf(self()); }
Tensor TensorMethods::relu() const { return lockstep::relu(self()); }
Tensor TensorMethods::floor() const { return lockstep::floor(self()); }
Tensor TensorMethods::ceil() const { return lockstep::ceil(self()); }
Tensor TensorMethods::trunc() const { return lockstep::trunc(self()); }
Tensor TensorMethods::round() const { return lockstep::round(self()); }
Tensor TensorMethods::sign() const { return lockstep::sign(self()); }
Tensor TensorMethods::clamp(std::optional<double> min, std::optional<double> max) const {
  return lockstep::clamp(self(), min, max);
}
Tensor TensorMethods::clip(std::optional<double> min, std::optional<double> max) const {
  return lockstep::clamp(self(), min, max);
}
Tensor TensorMethods::clamp_min(double min) const { return lockstep::clamp(self(), min); }
Tensor TensorMethods::clamp_max(double max) const { return lockstep::clamp(self(), std::nullopt, max); }
Tensor TensorMethods::isnan() const { return lockstep::isnan(self()); }
Tensor TensorMethods::isinf() const { return lockstep::isinf(self()); }
Tensor TensorMethods::isfinite() const { return lockstep::isfinite(self()); }
Tensor TensorMethods::nan_to_num(std::optional<double> nan, std::optional<double> posinf,
                                 std::optional<double> neginf) const {
  return lockstep::nan_to_num(self(), nan, posinf, neginf);
}
Tensor TensorMethods::eq(const Tensor& other) const { return lockstep::eq(self(), other); }
Tensor TensorMethods::eq(double number) const { return lockstep::eq(self(), number); }
Tensor TensorMethods::ne(const Tensor& other) const { return lockstep::ne(self(), other); }
Tensor TensorMethods::ne(double number) const { return lockstep::ne(self(), number); }
Tensor TensorMethods::lt(const Tensor& other) const { return lockstep::lt(self(), other); }
Tensor TensorMethods::lt(double number) const { return lockstep::lt(self(), number); }
Tensor TensorMethods::le(const Tensor& other) const { return lockstep::le(self(), other); }
Tensor TensorMethods::le(double number) const { return lockstep::le(self(), number); }
Tensor TensorMethods::gt(const Tensor& other) const { return lockstep::gt(self(), other); }
Tensor TensorMethods::gt(double number) const { return lockstep::gt(self(), number); }
Tensor TensorMethods::ge(const Tensor& other) const { return lockstep::ge(self(), other); }
Tensor TensorMethods::ge(double number) const { return lockstep::ge(self(), number); }
Tensor TensorMethods::logical_and(const Tensor& other) const { return lockstep::logical_and(self(), other); }
Tensor TensorMethods::logical_or(const Tensor& other) const { return lockstep::logical_or(self(), other); }
Tensor TensorMethods::logical_xor(const Tensor& other) const { return lockstep::logical_xor(self(), other); }
Tensor TensorMethods::logical_not() const { return lockstep::logical_not(self()); }
Tensor TensorMethods::where(const Tensor& condition, const Tensor& other) const {
  return lockstep::where(condition, self(), other);
}
Tensor TensorMethods::where(const Tensor& condition, double other) const {
  return lockstep::where(condition, self(), other);
}
Tensor TensorMethods::masked_fill(const Tensor& mask, double value) const {
  return lockstep::masked_fill(self(), mask, value);
}
Tensor TensorMethods::masked_select(const Tensor& mask) const { return lockstep::masked_select(self(), mask); }
Tensor TensorMethods::nonzero() const { return lockstep::nonzero(self()); }
bool TensorMethods::allclose(const Tensor& other, double rtol, double atol) const {
  return lockstep::allclose(self(), other, rtol, atol);
}
bool TensorMethods::equal(const Tensor& other) const { return lockstep::equal(self(), other); }
Tensor TensorMethods::sum() const { return lockstep::sum(self()); }
Tensor TensorMethods::sum(const Shape& dims, bool keep_dims) const { return lockstep::sum(self(), dims, keep_dims); }
Tensor TensorMethods::mean() const { return lockstep::mean(self()); }
Tensor TensorMethods::mean(const Shape& dims, bool keep_dims) const { return lockstep::mean(self(), dims, keep_dims); }
Tensor TensorMethods::prod() const { return lockstep::prod(self()); }
Tensor TensorMethods::prod(const Shape& dims, bool keep_dims) const { return lockstep::prod(self(), dims, keep_dims); }
Tensor TensorMethods::any() const { return lockstep::any(self()); }
Tensor TensorMethods::any(const Shape& dims, bool keep_dims) const { return lockstep::any(self(), dims, keep_dims); }
Tensor TensorMethods::all() const { return lockstep::all(self()); }
Tensor TensorMethods::all(const Shape& dims, bool keep_dims) const { return lockstep::all(self(), dims, keep_dims); }
Tensor TensorMethods::amax(const Shape& dims, bool keep_dims) const { return lockstep::amax(self(), dims, keep_dims); }
Tensor TensorMethods::amin(const Shape& dims, bool keep_dims) const { return lockstep::amin(self(), dims, keep_dims); }
Tensor TensorMethods::max() const { return lockstep::max(self()); }
ValuesAndIndices TensorMethods::max(std::int64_t dim, bool keep_dims) const {
  return lockstep::max(self(), dim, keep_dims);
}
Tensor TensorMethods::max(const Tensor& other) const { return lockstep::maximum(self(), other); }
Tensor TensorMethods::min() const { return lockstep::min(self()); }
ValuesAndIndices TensorMethods::min(std::int64_t dim, bool keep_dims) const {
  return lockstep::min(self(), dim, keep_dims);
}
Tensor TensorMethods::min(const Tensor& other) const { return lockstep::minimum(self(), other); }
Tensor TensorMethods::argmax() const { return lockstep::argmax(self()); }
Tensor TensorMethods::argmax(std::int64_t dim, bool keep_dims) const {
  return lockstep::argmax(self(), dim, keep_dims);
}
Tensor TensorMethods::argmin() const { return lockstep::argmin(self()); }
Tensor TensorMethods::argmin(std::int64_t dim, bool keep_dims) const {
  return lockstep::argmin(self(), dim, keep_dims);
}
Tensor TensorMethods::var() const { return lockstep::var(self()); }
Tensor TensorMethods::var(const Shape& dims, std::int64_t correction, bool keep_dims) const {
  return lockstep::var(self(), dims, {.correction = correction, .keep_dims = keep_dims});
}
Tensor TensorMethods::std() const { return lockstep::stddev(self()); }
Tensor TensorMethods::std(const Shape& dims, std::int64_t correction, bool keep_dims) const {
  return lockstep::stddev(self(), dims, {.correction = correction, .keep_dims = keep_dims});
}
Tensor TensorMethods::median() const { return lockstep::median(self()); }
ValuesAndIndices TensorMethods::median(std::int64_t dim, bool keep_dims) const {
  return lockstep::median(self(), dim, keep_dims);
}
ValuesAndIndices TensorMethods::kthvalue(std::int64_t k, std::int64_t dim, bool keep_dims) const {
  return lockstep::kthvalue(self(), k, dim, keep_dims);
}
Tensor TensorMethods::quantile(double q, std::optional<std::int64_t> dim, bool keep_dims,
                               std::string_view interpolation) const {
  return lockstep::quantile(self(), q, dim, keep_dims, interpolation);
}
Tensor TensorMethods::quantile(const Tensor& q, std::optional<std::int64_t> dim, bool keep_dims,
                               std::string_view interpolation) const {
  return lockstep::quantile(self(), q, dim, keep_dims, interpolation);
}
Tensor TensorMethods::histc(std::int64_t bins, double min, double max) const {
  return lockstep::histc(self(), bins, min, max);
}
Tensor TensorMethods::norm(double p) const { return lockstep::norm(self(), p); }
Tensor TensorMethods::norm(double p, const Shape& dims, bool keep_dims) const {
  return lockstep::norm(self(), p, dims, keep_dims);
}
Tensor TensorMethods::logsumexp(const Shape& dims, bool keep_dims) const {
  return lockstep::logsumexp(self(), dims, keep_dims);
}
Tensor TensorMethods::matmul(const Tensor& other) const { return lockstep::matmul(self(), other); }
Tensor TensorMethods::mm(const Tensor& other) const { return lockstep::mm(self(), other); }
Tensor TensorMethods::mv(const Tensor& vector) const { return lockstep::mv(self(), vector); }
Tensor TensorMethods::bmm(const Tensor& other) const { return lockstep::bmm(self(), other); }
Tensor TensorMethods::dot(const Tensor& other) const { return lockstep::dot(self(), other); }
Tensor TensorMethods::outer(const Tensor& other) const { return lockstep::outer(self(), other); }
Tensor TensorMethods::addmm(const Tensor& a, const Tensor& b, double beta, double alpha) const {
  return lockstep::addmm(self(), a, b, {.beta = beta, .alpha = alpha});
}
Tensor TensorMethods::softmax(std::int64_t dim) const { return lockstep::softmax(self(), dim); }
Tensor TensorMethods::log_softmax(std::int64_t dim) const { return lockstep::log_softmax(self(), dim); }
Tensor TensorMethods::cumsum(std::int64_t dim) const { return lockstep::cumsum(self(), dim); }
Tensor TensorMethods::cumprod(std::int64_t dim) const { return lockstep::cumprod(self(), dim); }
Tensor TensorMethods::diff(std::int64_t n, std::int64_t dim) const { return lockstep::diff(self(), n, dim); }
ValuesAndIndices TensorMethods::sort(std::int64_t dim, bool descending) const {
  return lockstep::sort(self(), dim, descending);
}
Tensor TensorMethods::argsort(std::int64_t dim, bool descending) const {
  return lockstep::argsort(self(), dim, descending);
}
ValuesAndIndices TensorMethods::topk(std::int64_t count, std::int64_t dim, bool greatest) const {
  return lockstep::topk(self(), count, dim, greatest);
}
Tensor TensorMethods::unique() const { return lockstep::unique(self()).values; }
Tensor TensorMethods::index_select(std::int64_t dim, const Tensor& index) const {
  return lockstep::index_select(self(), dim, index);
}
Tensor TensorMethods::gather(std::int64_t dim, const Tensor& index) const {
  return lockstep::gather_elements(self(), dim, index);
}
Tensor TensorMethods::scatter(std::int64_t dim, const Tensor& index, const Tensor& source) const {
  return lockstep::scatter_elements(self(), dim, index, source);
}
Tensor TensorMethods::scatter(std::int64_t dim, const Tensor& index, double value) const {
  return lockstep::scatter_elements(self(), dim, index, value);
}
Tensor TensorMethods::scatter_add(std::int64_t dim, const Tensor& index, const Tensor& source) const {
  return lockstep::scatter_add(self(), dim, index, source);
}
Tensor TensorMethods::index_add(std::int64_t dim, const Tensor& index, const Tensor& source, double alpha) const {
  return lockstep::index_add(self(), dim, index, source, alpha);
}
Tensor TensorMethods::index_copy(std::int64_t dim, const Tensor& index, const Tensor& source) const {
  return lockstep::index_copy(self(), dim, index, source);
}
Tensor TensorMethods::index_fill(std::int64_t dim, const Tensor& index, double value) const {
  return lockstep::index_fill(self(), dim, index, value);
}
Tensor TensorMethods::index_fill(std::int64_t dim, const Tensor& index, const Tensor& value) const {
  return lockstep::index_fill(self(), dim, index, value);
}
Tensor TensorMethods::flip(const Shape& dims) const { return lockstep::flip(self(), dims); }
Tensor TensorMethods::roll(const Shape& shifts, const Shape& dims) const {
  return lockstep::roll(self(), shifts, dims);
}
Tensor TensorMethods::repeat(const Shape& repeats) const { return lockstep::repeat(self(), repeats); }
Tensor TensorMethods::repeat_interleave(std::int64_t repeats, std::int64_t dim) const {
  return lockstep::repeat_interleave(self(), repeats, dim);
}
Tensor TensorMethods::tile(const Shape& repeats) const { return lockstep::tile(self(), repeats); }
Tensor TensorMethods::tril(std::int64_t diagonal) const { return lockstep::tril(self(), diagonal); }
Tensor TensorMethods::triu(std::int64_t diagonal) const { return lockstep::triu(self(), diagonal); }
Tensor TensorMethods::diagonal(std::int64_t offset, std::int64_t dim0, std::int64_t dim1) const {
  return lockstep::diagonal(self(), offset, dim0, dim1);
}
Tensor TensorMethods::movedim(std::int64_t from, std::int64_t to) const { return lockstep::movedim(self(), from, to); }
Tensor TensorMethods::swapaxes(std::int64_t dim0, std::int64_t dim1) const { return self().transpose(dim0, dim1); }
Tensor TensorMethods::swapdims(std::int64_t dim0, std::int64_t dim1) const { return self().transpose(dim0, dim1); }
Tensor TensorMethods::unflatten(std::int64_t dim, const Shape& sizes) const {
  return lockstep::unflatten(self(), dim, sizes);
}
Tensor TensorMethods::expand_as(const Tensor& other) const { return self().expand(other.sizes()); }
Tensor TensorMethods::view_as(const Tensor& other) const { return self().view(other.sizes()); }
Tensor TensorMethods::reshape_as(const Tensor& other) const { return self().reshape(other.sizes()); }
Tensor TensorMethods::type_as(const Tensor& other) const { return self().to(other.device(), other.dtype()); }
std::vector<Tensor> TensorMethods::chunk(std::int64_t chunks, std::int64_t dim) const {
  return lockstep::chunk(self(), chunks, dim);
}
std::vector<Tensor> TensorMethods::split(std::int64_t size, std::int64_t dim) const {
  return lockstep::split(self(), size, dim);
}
std::vector<Tensor> TensorMethods::split(const std::vector<std::int64_t>& sizes, std::int64_t dim) const {
  return lockstep::split(self(), sizes, dim);
}
std::vector<Tensor> TensorMethods::tensor_split(std::int64_t sections, std::int64_t dim) const {
  return lockstep::tensor_split(self(), sections, dim);
}
std::vector<Tensor> TensorMethods::tensor_split(const std::vector<std::int64_t>& indices, std::int64_t dim) const {
  return lockstep::tensor_split(self(), indices, dim);
}
std::vector<Tensor> TensorMethods::unbind(std::int64_t dim) const { return lockstep::unbind(self(), dim); }
Tensor TensorMethods::new_empty(const Shape& sizes) const { return lockstep::empty(sizes, self().options()); }
Tensor TensorMethods::new_zeros(const Shape& sizes) const { return lockstep::zeros(sizes, self().options()); }
Tensor TensorMethods::new_ones(const Shape& sizes) const { return lockstep::ones(sizes, self().options()); }
Tensor TensorMethods::new_full(const Shape& sizes, double value) const {
  return lockstep::full(sizes, value, self().options());
}

Tensor TensorMethods::T() const {
  Shape dims;
  for (int i = self().dim() - 1; i >= 0; --i) dims.push_back(i);
  return self().permute(dims);
}

Tensor TensorMethods::squeeze() const {
  Tensor result = self();
  for (int i = result.dim() - 1; i >= 0; --i) result = result.squeeze(i);
  return result;
}

}  // namespace lockstep
