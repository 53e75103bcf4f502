// Activations as modules: nn::Sequential{nn::Linear(4, 8), nn::GELU(), nn::Linear(8, 2)}. The functions of the same
// names in lockstep/ops/activation.h, unary.h and softmax.h document them and their options.
#pragma once

#include <cstdint>

#include <lockstep/nn/module.h>
#include <lockstep/ops/activation.h>
#include <lockstep/ops/softmax.h>

namespace lockstep::nn {

namespace detail {

/// An activation without options.
template <class Self, Tensor (*kFunction)(const Tensor&)>
struct PlainActivation : Module<Self> {
  Tensor forward(const Tensor& x) const { return kFunction(x); }
};

}  // namespace detail

struct LOCKSTEP_API SELU : detail::PlainActivation<SELU, selu> {};
struct LOCKSTEP_API SiLU : detail::PlainActivation<SiLU, silu> {};
struct LOCKSTEP_API Mish : detail::PlainActivation<Mish, mish> {};
struct LOCKSTEP_API ReLU6 : detail::PlainActivation<ReLU6, relu6> {};
struct LOCKSTEP_API Hardsigmoid : detail::PlainActivation<Hardsigmoid, hardsigmoid> {};
struct LOCKSTEP_API Hardswish : detail::PlainActivation<Hardswish, hardswish> {};
struct LOCKSTEP_API Sigmoid : detail::PlainActivation<Sigmoid, sigmoid> {};
struct LOCKSTEP_API Tanh : detail::PlainActivation<Tanh, tanh> {};
struct LOCKSTEP_API LogSigmoid : detail::PlainActivation<LogSigmoid, logsigmoid> {};
struct LOCKSTEP_API Softsign : detail::PlainActivation<Softsign, softsign> {};
struct LOCKSTEP_API Tanhshrink : detail::PlainActivation<Tanhshrink, tanhshrink> {};

struct LOCKSTEP_API Identity : Module<Identity> {
  Tensor forward(const Tensor& x) const { return x; }
};

struct LOCKSTEP_API ReLU : Module<ReLU> {
  explicit ReLU(bool in_place = false) : inplace(in_place) {}
  bool inplace;  ///< True: overwrites x and returns it.
  Tensor forward(const Tensor& x) const { return inplace ? Tensor(x).relu_() : relu(x); }
};

struct LOCKSTEP_API LeakyReLU : Module<LeakyReLU> {
  explicit LeakyReLU(double slope = 0.01) : negative_slope(slope) {}
  double negative_slope;  ///< The factor of negative x.
  auto members() { return nn::members("negative_slope", negative_slope); }
  Tensor forward(const Tensor& x) const { return leaky_relu(x, negative_slope); }
};

struct LOCKSTEP_API ELU : Module<ELU> {
  explicit ELU(double factor = 1) : alpha(factor) {}
  double alpha;
  auto members() { return nn::members("alpha", alpha); }
  Tensor forward(const Tensor& x) const { return elu(x, alpha); }
};

struct LOCKSTEP_API CELU : Module<CELU> {
  explicit CELU(double factor = 1) : alpha(factor) {}
  double alpha;
  auto members() { return nn::members("alpha", alpha); }
  Tensor forward(const Tensor& x) const { return celu(x, alpha); }
};

struct LOCKSTEP_API GELU : Module<GELU> {
  explicit GELU(Choice<GeluForm> how = GeluForm::exact) : approximate(how) {}
  GeluForm approximate;  ///< How the error function is computed.
  auto members() { return nn::members("approximate", approximate); }
  Tensor forward(const Tensor& x) const { return gelu(x, approximate); }
};

struct LOCKSTEP_API Hardtanh : Module<Hardtanh> {
  explicit Hardtanh(double least = -1, double most = 1) : min(least), max(most) {}
  double min, max;  ///< The bounds.
  auto members() { return nn::members("min", min, "max", max); }
  Tensor forward(const Tensor& x) const { return hardtanh(x, min, max); }
};

struct LOCKSTEP_API Softplus : Module<Softplus> {
  explicit Softplus(const SoftplusOptions& options = {}) : beta(options.beta), threshold(options.threshold) {}
  double beta, threshold;  ///< See softplus().
  auto members() { return nn::members("beta", beta, "threshold", threshold); }
  Tensor forward(const Tensor& x) const { return softplus(x, {.beta = beta, .threshold = threshold}); }
};

struct LOCKSTEP_API Hardshrink : Module<Hardshrink> {
  explicit Hardshrink(double width = 0.5) : lambda(width) {}
  double lambda;
  auto members() { return nn::members("lambda", lambda); }
  Tensor forward(const Tensor& x) const { return hardshrink(x, lambda); }
};

struct LOCKSTEP_API Softshrink : Module<Softshrink> {
  explicit Softshrink(double width = 0.5) : lambda(width) {}
  double lambda;
  auto members() { return nn::members("lambda", lambda); }
  Tensor forward(const Tensor& x) const { return softshrink(x, lambda); }
};

struct LOCKSTEP_API Softmax : Module<Softmax> {
  explicit Softmax(std::int64_t along) : dim(along) {}
  std::int64_t dim;
  auto members() { return nn::members("dim", dim); }
  Tensor forward(const Tensor& x) const { return softmax(x, dim); }
};

struct LOCKSTEP_API LogSoftmax : Module<LogSoftmax> {
  explicit LogSoftmax(std::int64_t along) : dim(along) {}
  std::int64_t dim;
  auto members() { return nn::members("dim", dim); }
  Tensor forward(const Tensor& x) const { return log_softmax(x, dim); }
};

}  // namespace lockstep::nn
