// Layers whose weight is computed from other parameters in each pass: nn::weight_norm(nn::Linear(20, 40)). A wrapper
// owns the layer and takes its place in the model. The state dict has the keys of torch.nn.utils.parametrizations
// (parametrizations.weight.original0, ...) and the layer's other keys; the layer itself holds no weight between passes.
#pragma once

#include <cstdint>
#include <utility>

#include <lockstep/nn/module.h>
#include <lockstep/ops/arithmetic.h>

namespace lockstep::nn {

namespace detail {

/// While it lives, a layer's `weight` is `value`, a handle to a computed tensor; afterwards it is undefined.
template <class Layer>
class ComputedWeight {
 public:
  ComputedWeight(Layer& layer, const Tensor& value) : weight_(layer.weight) { weight_ = value; }
  ~ComputedWeight() { weight_ = Tensor(); }
  ComputedWeight(const ComputedWeight&) = delete;
  ComputedWeight& operator=(const ComputedWeight&) = delete;

 private:
  Tensor& weight_;
};

/// Removes the weight from a layer and returns it. Throws InvalidArgument naming `wrapper` if the layer is lazy and has
/// no weight yet.
LOCKSTEP_API Tensor taken_weight(const char* wrapper, Parameter& weight);
/// Visits the layer's members except its weight.
template <class Layer>
void visit_others(const Path& path, Layer& layer, Visitor& visitor) {
  for_each_member(layer, [&](std::string_view name, auto& member) {
    if (name != "weight") visit_member(Path(path, name), member, visitor);
  });
}
/// The norms over all dimensions except `dim`.
LOCKSTEP_API Tensor norm_except(const Tensor& x, std::int64_t dim);
/// Two unit vectors near the first singular vectors of a matrix [rows, columns], by power iteration from random
/// vectors.
LOCKSTEP_API std::pair<Tensor, Tensor> first_singular_vectors(const Tensor& matrix, double eps);
/// One iteration of the power method on u and v, in place, not recorded.
LOCKSTEP_API void power_iteration(const Tensor& matrix, Tensor& u, Tensor& v, double eps);
/// `weight` as a matrix whose rows are its slices along `dim`.
LOCKSTEP_API Tensor as_matrix(const Tensor& weight, std::int64_t dim);
LOCKSTEP_API Tensor over_largest_singular_value(const Tensor& weight, std::int64_t dim, const Tensor& u,
                                                const Tensor& v);

}  // namespace detail

/// A layer whose weight is g v / |v|, where g and |v| are one number for each slice along `dim` (Salimans, Kingma
/// 2016).
template <class Layer>
class WeightNorm : public Module<WeightNorm<Layer>> {
 public:
  explicit WeightNorm(Layer layer, std::int64_t dim = 0) : layer_(std::move(layer)), dim_(dim) {
    const Tensor weight = detail::taken_weight("weight_norm", layer_.weight);
    original0 = Parameter(detail::norm_except(weight, dim));
    original1 = Parameter(weight);
  }
  LOCKSTEP_COPIED_IF_ASKED(WeightNorm);

  Parameter original0, original1;  ///< g and v.

  /// The weight that the layer computes with.
  Tensor weight() const { return original1 * (original0 / detail::norm_except(original1, dim_)); }

  template <class... Inputs>
  Tensor forward(const Inputs&... inputs) {
    const detail::ComputedWeight<Layer> scope(layer_, weight());
    layer_.set_mode(this->is_training());
    return layer_(inputs...);
  }

  void visit(const Path& path, Visitor& visitor) override {
    visitor.module(path, *this);
    detail::visit_others(path, layer_, visitor);
    const Path all(path, "parametrizations"), of_weight(all, "weight");
    visitor.parameter(Path(of_weight, "original0"), original0);
    visitor.parameter(Path(of_weight, "original1"), original1);
  }

 private:
  Layer layer_;
  std::int64_t dim_;
};

/// Wraps the layer in a WeightNorm.
template <class Layer>
WeightNorm<Layer> weight_norm(Layer layer, std::int64_t dim = 0) {
  return WeightNorm<Layer>(std::move(layer), dim);
}

struct SpectralNormOptions {
  std::int64_t power_iterations = 1;  ///< Iterations in each training pass.
  std::int64_t dim = 0;               ///< The weight's dimension that becomes the rows of the matrix.
  double eps = 1e-12;
};

/// A layer whose weight is divided by its largest singular value, tracked by power iteration (Miyato et al. 2018). All
/// replicas of a module run the same iterations, from equal u and v, so their u and v stay equal.
template <class Layer>
class SpectralNorm : public Module<SpectralNorm<Layer>> {
 public:
  /// Throws InvalidArgument if power_iterations < 1.
  explicit SpectralNorm(Layer layer, const SpectralNormOptions& options = {})
      : layer_(std::move(layer)), options_(options) {
    if (options.power_iterations < 1)
      throw InvalidArgument("[spectral_norm] expected at least one power iteration, got none");
    original = Parameter(detail::taken_weight("spectral_norm", layer_.weight));
    const auto [left, right] =
        detail::first_singular_vectors(detail::as_matrix(original.detach(), options.dim), options.eps);
    u = Buffer(left, BufferSync::equal);
    v = Buffer(right, BufferSync::equal);
  }
  LOCKSTEP_COPIED_IF_ASKED(SpectralNorm);

  Parameter original;  ///< The parameter that the weight is computed from.
  Buffer u, v;         ///< The singular vectors.

  /// The present weight. Runs no power iteration.
  Tensor weight() const { return detail::over_largest_singular_value(original, options_.dim, u.clone(), v.clone()); }

  template <class... Inputs>
  Tensor forward(const Inputs&... inputs) {
    const Tensor matrix = detail::as_matrix(original.detach(), options_.dim);
    if (this->is_training())
      for (std::int64_t i = 0; i < options_.power_iterations; ++i) detail::power_iteration(matrix, u, v, options_.eps);
    const detail::ComputedWeight<Layer> scope(layer_, weight());
    layer_.set_mode(this->is_training());
    return layer_(inputs...);
  }

  void visit(const Path& path, Visitor& visitor) override {
    visitor.module(path, *this);
    detail::visit_others(path, layer_, visitor);
    const Path all(path, "parametrizations"), of_weight(all, "weight"), first(of_weight, "0");
    visitor.parameter(Path(of_weight, "original"), original);
    visitor.buffer(Path(first, "_u"), u);
    visitor.buffer(Path(first, "_v"), v);
  }

 private:
  Layer layer_;
  SpectralNormOptions options_;
};

/// Wraps the layer in a SpectralNorm.
template <class Layer>
SpectralNorm<Layer> spectral_norm(Layer layer, const SpectralNormOptions& options = {}) {
  return SpectralNorm<Layer>(std::move(layer), options);
}

}  // namespace lockstep::nn
