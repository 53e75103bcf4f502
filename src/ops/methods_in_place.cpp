// The in-place operations as methods of Tensor: each overwrites the tensor with the free function's result.
#include <lockstep/autograd/grad_mode.h>
#include <lockstep/ops/activation.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/compare.h>
#include <lockstep/ops/index.h>
#include <lockstep/ops/unary.h>
#include <lockstep/tensor/random.h>
#include <lockstep/tensor/tensor.h>

#include "autograd/in_place.h"
#include "core/text.h"
#include "ops/record.h"
#include "tensor/copy.h"
#include "tensor/tensor_impl.h"

namespace lockstep {

// Overwrites the tensor with the result of f. If the operation is recorded, f gets a copy of the tensor, because
// backward may need the previous values.
template <class F>
Tensor& TensorMethods::change(const char* op, const F& f) {
  Tensor& target = static_cast<Tensor&>(*this);
  autograd::check_in_place(op, target);
  const Tensor result = f(records(target) ? target.clone() : target);
  if (result.sizes() != target.sizes() || promote(result.dtype(), target.dtype()) != target.dtype())
    throw DTypeError(text("[", op, "] in-place result has dtype ", result.dtype(), " and shape ", result.sizes(),
                          ", but the tensor is ", target.dtype(), " ", target.sizes(),
                          ": use the out-of-place function"));
  const TensorImpl& impl = *target.impl();
  if (!records(target) || impl.follows_base || result.dtype() != target.dtype()) return target.copy_(result);
  // The target takes over the result's node, so a hook of the target also gets gradients that reach this node through
  // an output that the operation saved.
  autograd::check_recorded_in_place(op, target);
  copy_values(target, result);
  bump_version(target);
  autograd::attach(autograd::meta_of(result)->grad_fn, std::span(&target, 1));
  return target;
}

Tensor& TensorMethods::operator&=(const Tensor& other) {
  return change("&=", [&](const Tensor& x) { return x & other; });
}
Tensor& TensorMethods::operator|=(const Tensor& other) {
  return change("|=", [&](const Tensor& x) { return x | other; });
}
Tensor& TensorMethods::operator^=(const Tensor& other) {
  return change("^=", [&](const Tensor& x) { return x ^ other; });
}
Tensor& TensorMethods::neg_() { return change("neg_", lockstep::neg); }
Tensor& TensorMethods::pow_(double exponent) {
  return change("pow_", [&](const Tensor& x) { return lockstep::pow(x, exponent); });
}
Tensor& TensorMethods::abs_() { return change("abs_", lockstep::abs); }
Tensor& TensorMethods::sqrt_() { return change("sqrt_", lockstep::sqrt); }
Tensor& TensorMethods::exp_() { return change("exp_", lockstep::exp); }
Tensor& TensorMethods::log_() { return change("log_", lockstep::log); }
Tensor& TensorMethods::tanh_() { return change("tanh_", lockstep::tanh); }
Tensor& TensorMethods::sigmoid_() {
  return change("sigmoid_", [](const Tensor& x) { return lockstep::sigmoid(x); });
}
Tensor& TensorMethods::relu_() { return change("relu_", lockstep::relu); }
Tensor& TensorMethods::floor_() { return change("floor_", lockstep::floor); }
Tensor& TensorMethods::round_() { return change("round_", lockstep::round); }
Tensor& TensorMethods::clamp_(std::optional<double> min, std::optional<double> max) {
  return change("clamp_", [&](const Tensor& x) { return lockstep::clamp(x, min, max); });
}
Tensor& TensorMethods::clip_(std::optional<double> min, std::optional<double> max) { return clamp_(min, max); }
Tensor& TensorMethods::nan_to_num_(std::optional<double> nan, std::optional<double> posinf,
                                   std::optional<double> neginf) {
  return change("nan_to_num_", [&](const Tensor& x) { return lockstep::nan_to_num(x, nan, posinf, neginf); });
}
Tensor& TensorMethods::fmod_(const Tensor& other) {
  return change("fmod_", [&](const Tensor& x) { return lockstep::fmod(x, other); });
}
Tensor& TensorMethods::fmod_(double number) {
  return change("fmod_", [&](const Tensor& x) { return lockstep::fmod(x, number); });
}
Tensor& TensorMethods::addcmul_(const Tensor& a, const Tensor& b, double value) {
  return change("addcmul_", [&](const Tensor& x) { return lockstep::addcmul(x, a, b, value); });
}
Tensor& TensorMethods::addcdiv_(const Tensor& a, const Tensor& b, double value) {
  return change("addcdiv_", [&](const Tensor& x) { return lockstep::addcdiv(x, a, b, value); });
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
Tensor& TensorMethods::index_copy_(std::int64_t dim, const Tensor& index, const Tensor& source) {
  return change("index_copy_", [&](const Tensor& x) { return lockstep::index_copy(x, dim, index, source); });
}
Tensor& TensorMethods::index_fill_(std::int64_t dim, const Tensor& index, double value) {
  return change("index_fill_", [&](const Tensor& x) { return lockstep::index_fill(x, dim, index, value); });
}
Tensor& TensorMethods::index_fill_(std::int64_t dim, const Tensor& index, const Tensor& value) {
  return change("index_fill_", [&](const Tensor& x) { return lockstep::index_fill(x, dim, index, value); });
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
