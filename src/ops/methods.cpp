// The operations as methods: each calls the free function, whose file has the operation.
#include <lockstep/autograd/grad_mode.h>
#include <lockstep/ops/activation.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/compare.h>
#include <lockstep/ops/index.h>
#include <lockstep/ops/join.h>
#include <lockstep/ops/layout.h>
#include <lockstep/ops/linalg.h>
#include <lockstep/ops/order.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/sampling.h>
#include <lockstep/ops/softmax.h>
#include <lockstep/ops/unary.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>
#include <lockstep/tensor/tensor.h>

#include "autograd/in_place.h"
#include "autograd/record.h"
#include "core/text.h"
#include "tensor/tensor_impl.h"

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
Tensor TensorMethods::clamp_min(double min) const { return lockstep::clamp(self(), min); }
Tensor TensorMethods::clamp_max(double max) const { return lockstep::clamp(self(), std::nullopt, max); }
Tensor TensorMethods::isnan() const { return lockstep::isnan(self()); }
Tensor TensorMethods::isinf() const { return lockstep::isinf(self()); }
Tensor TensorMethods::isfinite() const { return lockstep::isfinite(self()); }
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
Tensor TensorMethods::norm(double p) const { return lockstep::norm(self(), p); }
Tensor TensorMethods::norm(double p, const Shape& dims, bool keep_dims) const {
  return lockstep::norm(self(), p, dims, keep_dims);
}
Tensor TensorMethods::logsumexp(const Shape& dims, bool keep_dims) const {
  return lockstep::logsumexp(self(), dims, keep_dims);
}
Tensor TensorMethods::matmul(const Tensor& other) const { return lockstep::matmul(self(), other); }
Tensor TensorMethods::mm(const Tensor& other) const { return lockstep::mm(self(), other); }
Tensor TensorMethods::bmm(const Tensor& other) const { return lockstep::bmm(self(), other); }
Tensor TensorMethods::dot(const Tensor& other) const { return lockstep::dot(self(), other); }
Tensor TensorMethods::outer(const Tensor& other) const { return lockstep::outer(self(), other); }
Tensor TensorMethods::addmm(const Tensor& a, const Tensor& b, double beta, double alpha) const {
  return lockstep::addmm(self(), a, b, {.beta = beta, .alpha = alpha});
}
Tensor TensorMethods::softmax(std::int64_t dim) const { return lockstep::softmax(self(), dim); }
Tensor TensorMethods::log_softmax(std::int64_t dim) const { return lockstep::log_softmax(self(), dim); }
Tensor TensorMethods::cumsum(std::int64_t dim) const { return lockstep::cumsum(self(), dim); }
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

// The result of f, written over the tensor. Backward may need what was there.
template <class F>
Tensor& TensorMethods::change(const char* op, const F& f) {
  Tensor& target = static_cast<Tensor&>(*this);
  autograd::check_in_place(op, target);
  const Tensor result = f(autograd::records(target) ? target.clone() : target);
  if (result.sizes() != target.sizes() || promote(result.dtype(), target.dtype()) != target.dtype())
    throw DTypeError(text("[", op, "] expected a result that ", target.dtype(), " ", target.sizes(), " can hold, got ",
                          result.dtype(), " ", result.sizes()));
  return target.copy_(result);
}

Tensor& TensorMethods::neg_() {
  return change("neg_", [](const Tensor& x) { return lockstep::neg(x); });
}
Tensor& TensorMethods::pow_(double exponent) {
  return change("pow_", [&](const Tensor& x) { return lockstep::pow(x, exponent); });
}
Tensor& TensorMethods::abs_() {
  return change("abs_", [](const Tensor& x) { return lockstep::abs(x); });
}
Tensor& TensorMethods::sqrt_() {
  return change("sqrt_", [](const Tensor& x) { return lockstep::sqrt(x); });
}
Tensor& TensorMethods::exp_() {
  return change("exp_", [](const Tensor& x) { return lockstep::exp(x); });
}
Tensor& TensorMethods::log_() {
  return change("log_", [](const Tensor& x) { return lockstep::log(x); });
}
Tensor& TensorMethods::tanh_() {
  return change("tanh_", [](const Tensor& x) { return lockstep::tanh(x); });
}
Tensor& TensorMethods::sigmoid_() {
  return change("sigmoid_", [](const Tensor& x) { return lockstep::sigmoid(x); });
}
Tensor& TensorMethods::relu_() {
  return change("relu_", [](const Tensor& x) { return lockstep::relu(x); });
}
Tensor& TensorMethods::floor_() {
  return change("floor_", [](const Tensor& x) { return lockstep::floor(x); });
}
Tensor& TensorMethods::round_() {
  return change("round_", [](const Tensor& x) { return lockstep::round(x); });
}
Tensor& TensorMethods::clamp_(std::optional<double> min, std::optional<double> max) {
  return change("clamp_", [&](const Tensor& x) { return lockstep::clamp(x, min, max); });
}
Tensor& TensorMethods::masked_fill_(const Tensor& mask, double value) {
  return change("masked_fill_", [&](const Tensor& x) { return lockstep::masked_fill(x, mask, value); });
}
Tensor& TensorMethods::scatter_(std::int64_t dim, const Tensor& index, const Tensor& source) {
  return change("scatter_", [&](const Tensor& x) { return lockstep::scatter_elements(x, dim, index, source); });
}
Tensor& TensorMethods::scatter_(std::int64_t dim, const Tensor& index, double value) {
  return change("scatter_", [&](const Tensor& x) { return lockstep::scatter_elements(x, dim, index, value); });
}
Tensor& TensorMethods::scatter_add_(std::int64_t dim, const Tensor& index, const Tensor& source) {
  return change("scatter_add_", [&](const Tensor& x) { return lockstep::scatter_add(x, dim, index, source); });
}
Tensor& TensorMethods::index_add_(std::int64_t dim, const Tensor& index, const Tensor& source, double alpha) {
  return change("index_add_", [&](const Tensor& x) { return lockstep::index_add(x, dim, index, source, alpha); });
}
Tensor& TensorMethods::lerp_(const Tensor& end, double weight) {
  return change("lerp_", [&](const Tensor& x) { return lockstep::lerp(x, end, weight); });
}

Tensor& TensorMethods::uniform_(double low, double high) {
  return lockstep::uniform_(static_cast<Tensor&>(*this), low, high);
}
Tensor& TensorMethods::normal_(double mean, double standard_deviation) {
  return lockstep::normal_(static_cast<Tensor&>(*this), mean, standard_deviation);
}
Tensor& TensorMethods::bernoulli_(double p) {
  if (!(p >= 0 && p <= 1)) throw InvalidArgument(text("[bernoulli_] expected a p from 0 to 1, got ", p));
  const NoGrad guard;
  const Tensor draws = rand(self().sizes(), {.device = self().device()});
  return static_cast<Tensor&>(*this).copy_(draws < p);
}

}  // namespace lockstep
