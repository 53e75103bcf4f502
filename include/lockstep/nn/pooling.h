// Pooling as layers: nn::MaxPool2d(2), nn::AvgPool2d(3, {.stride = 2}), nn::AdaptiveAvgPool2d(1). The functions of the
// same names in lockstep/ops/pooling.h document them and their options.
#pragma once

#include <concepts>
#include <cstdint>

#include <lockstep/nn/module.h>
#include <lockstep/ops/pooling.h>

namespace lockstep::nn {

namespace detail {

template <int Dims, class F>
constexpr F* of_dims(F* one, F* two, F* three) {
  return Dims == 1 ? one : Dims == 2 ? two : three;
}

}  // namespace detail

template <int Dims>
struct LOCKSTEP_API MaxPool : Module<MaxPool<Dims>> {
  explicit MaxPool(const PerDimension& size, const MaxPoolOptions& how = {}) : kernel_size(size), options(how) {}
  /// Positional arguments: MaxPool2d(3, 2, 1).
  template <std::integral Number>
  MaxPool(const PerDimension& size, Number stride, std::int64_t padding = 0)
      : MaxPool(size, MaxPoolOptions{.stride = stride, .padding = padding}) {}
  PerDimension kernel_size;
  MaxPoolOptions options;
  void pretty_print(std::ostream& out) const override {
    detail::OwnLine(out, typeid(*this)).name("kernel_size") << kernel_size;
  }
  Tensor forward(const Tensor& x) const {
    return detail::of_dims<Dims>(max_pool1d, max_pool2d, max_pool3d)(x, kernel_size, options);
  }
};
using MaxPool1d = MaxPool<1>;
using MaxPool2d = MaxPool<2>;
using MaxPool3d = MaxPool<3>;

template <int Dims>
struct LOCKSTEP_API MaxUnpool : Module<MaxUnpool<Dims>> {
  explicit MaxUnpool(const PerDimension& size, const MaxUnpoolOptions& how = {}) : kernel_size(size), options(how) {}
  PerDimension kernel_size;
  MaxUnpoolOptions options;
  Tensor forward(const Tensor& x, const Tensor& indices) const {
    return detail::of_dims<Dims>(max_unpool1d, max_unpool2d, max_unpool3d)(x, indices, kernel_size, options);
  }
};
using MaxUnpool1d = MaxUnpool<1>;
using MaxUnpool2d = MaxUnpool<2>;
using MaxUnpool3d = MaxUnpool<3>;

template <int Dims>
struct LOCKSTEP_API AvgPool : Module<AvgPool<Dims>> {
  explicit AvgPool(const PerDimension& size, const AvgPoolOptions& how = {}) : kernel_size(size), options(how) {}
  /// Positional arguments: AvgPool2d(3, 2, 1).
  template <std::integral Number>
  AvgPool(const PerDimension& size, Number stride, std::int64_t padding = 0)
      : AvgPool(size, AvgPoolOptions{.stride = stride, .padding = padding}) {}
  PerDimension kernel_size;
  AvgPoolOptions options;
  void pretty_print(std::ostream& out) const override {
    detail::OwnLine(out, typeid(*this)).name("kernel_size") << kernel_size;
  }
  Tensor forward(const Tensor& x) const {
    return detail::of_dims<Dims>(avg_pool1d, avg_pool2d, avg_pool3d)(x, kernel_size, options);
  }
};
using AvgPool1d = AvgPool<1>;
using AvgPool2d = AvgPool<2>;
using AvgPool3d = AvgPool<3>;

template <int Dims>
struct LOCKSTEP_API LPPool : Module<LPPool<Dims>> {
  LPPool(double norm, const PerDimension& size, const LpPoolOptions& how = {})
      : norm_type(norm), kernel_size(size), options(how) {}
  double norm_type;  ///< See lp_pool1d().
  PerDimension kernel_size;
  LpPoolOptions options;
  Tensor forward(const Tensor& x) const {
    return detail::of_dims<Dims>(lp_pool1d, lp_pool2d, lp_pool3d)(x, norm_type, kernel_size, options);
  }
};
using LPPool1d = LPPool<1>;
using LPPool2d = LPPool<2>;
using LPPool3d = LPPool<3>;

template <int Dims>
struct LOCKSTEP_API AdaptiveAvgPool : Module<AdaptiveAvgPool<Dims>> {
  explicit AdaptiveAvgPool(const PerDimension& size) : output_size(size) {}
  PerDimension output_size;
  void pretty_print(std::ostream& out) const override {
    detail::OwnLine(out, typeid(*this)).name("output_size") << output_size;
  }
  Tensor forward(const Tensor& x) const {
    return detail::of_dims<Dims>(adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)(x, output_size);
  }
};
using AdaptiveAvgPool1d = AdaptiveAvgPool<1>;
using AdaptiveAvgPool2d = AdaptiveAvgPool<2>;
using AdaptiveAvgPool3d = AdaptiveAvgPool<3>;

template <int Dims>
struct LOCKSTEP_API AdaptiveMaxPool : Module<AdaptiveMaxPool<Dims>> {
  explicit AdaptiveMaxPool(const PerDimension& size) : output_size(size) {}
  PerDimension output_size;
  void pretty_print(std::ostream& out) const override {
    detail::OwnLine(out, typeid(*this)).name("output_size") << output_size;
  }
  Tensor forward(const Tensor& x) const {
    return detail::of_dims<Dims>(adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d)(x, output_size);
  }
};
using AdaptiveMaxPool1d = AdaptiveMaxPool<1>;
using AdaptiveMaxPool2d = AdaptiveMaxPool<2>;
using AdaptiveMaxPool3d = AdaptiveMaxPool<3>;

}  // namespace lockstep::nn
