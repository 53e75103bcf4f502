// Random tensors: each call draws as many blocks as its elements need, and enqueues one kernel.
#include <lockstep/tensor/random.h>

#include <cmath>
#include <numeric>
#include <utility>

#include <lockstep/tensor/creation.h>

#include "core/expect.h"
#include "core/text.h"
#include "kernels/launch.h"
#include "tensor/copy.h"
#include "tensor/deferred_memory.h"
#include "tensor/overlap.h"
#include "tensor/random_kernel.h"

namespace lockstep {
namespace {

/// Fills a tensor, whatever its layout, with the numbers of a new draw in row-major order.
template <class T, class Distribution>
void fill_random(const char* op, const Tensor& tensor, const Distribution& distribution) {
  const TensorImpl& impl = *tensor.impl();
  if (impl.numel == 0) return;
  const Tensor dense = impl.contiguous ? tensor : make_tensor(*impl.storage->device, impl.sizes, impl.dtype);
  const DeviceDraw draw = draw_on(*impl.storage->device, blocks_for(impl.numel, Distribution::kPerBlock));
  const double flops = Distribution::kFlops * double(impl.numel);
  const auto kernel_of = [distribution, start = draw.start](const Tensor& to) {
    return RandomKernel<Distribution, T>{distribution, reinterpret_cast<T*>(to.impl()->data()), to.numel(), start};
  };
  if (draw.memory.defined())
    launch(op, flops, dense, std::array{&draw.memory}, kernel_of(dense));
  else if (defer(dense, [=](const Tensor& flat) { launch(op, flops, flat, {}, kernel_of(flat)); }))
    return;
  else
    launch(op, flops, dense, {}, kernel_of(dense));
  if (!dense.is_same(tensor)) copy_values(tensor, dense);
}

template <class T>
bool is_finite(T value) {
  return std::isfinite(ComputeType<T>(value));
}

void fill_uniform(const char* op, const Tensor& tensor, double low, double high) {
  visit_floating(op, tensor.dtype(), [&]<class T>() {
    using Compute = ComputeType<T>;
    const T from = T(Compute(low)), to = T(Compute(high));
    if (!(low <= high) || !is_finite(from) || !is_finite(to) || !std::isfinite(Compute(to) - Compute(from)))
      throw InvalidArgument(text("[", op, "] expected low <= high, with a difference that ", tensor.dtype(),
                                 " holds, got low ", low, " and high ", high));
    fill_random<T>(op, tensor, Uniform<T>(from, to));
  });
}

void fill_normal(const char* op, const Tensor& tensor, double mean, double standard_deviation) {
  visit_floating(op, tensor.dtype(), [&]<class T>() {
    using Compute = ComputeType<T>;
    const Normal<T> normal{Compute(mean), Compute(standard_deviation)};
    if (!(standard_deviation >= 0) || !std::isfinite(normal.mean) || !std::isfinite(normal.standard_deviation))
      throw InvalidArgument(text("[", op, "] expected a finite mean and a standard deviation of at least 0, got ", mean,
                                 " and ", standard_deviation));
    fill_random<T>(op, tensor, normal);
  });
}

/// True if T can represent exactly this integer and all integers between it and 0.
template <class T>
bool holds(std::int64_t value) {
  if constexpr (std::is_integral_v<T>) {
    return std::in_range<T>(value);
  } else {
    constexpr int kDigits = sizeof(T) == 8 ? 53 : sizeof(T) == 4 ? 24 : std::is_same_v<T, Half> ? 11 : 8;
    return value >= -(std::int64_t(1) << kDigits) && value <= std::int64_t(1) << kDigits;
  }
}

void check_target(const char* op, const Tensor& tensor) {
  const TensorImpl& impl = impl_of(op, tensor);
  expect<DTypeError>(is_floating(impl.dtype), op, "a floating dtype, got ", impl.dtype);
  if (overlaps_itself(impl))
    throw InvalidArgument(text("[", op,
                               "] cannot fill a view in which several elements share memory (expand), got shape ",
                               impl.sizes, " with strides ", impl.strides, ": clone() it first"));
  wait_for_copies_from(impl);
}

// Checks the dtype before memory is allocated.
TensorOptions floating_options(const char* op, TensorOptions options) {
  if (!options.dtype) options.dtype = kFloat32;
  expect<DTypeError>(is_floating(*options.dtype), op, "a floating dtype, got ", *options.dtype);
  return options;
}

TensorOptions like_options(const char* op, const Tensor& like, TensorOptions options) {
  const TensorImpl& impl = impl_of(op, like);
  if (!options.dtype) options.dtype = impl.dtype;
  if (!options.device) options.device = impl.storage->device->device;
  return options;
}

void shuffle(std::int64_t* order, std::int64_t count) {
  std::iota(order, order + count, std::int64_t(0));
  if (count < 2) return;
  const GeneratorState start = draw(blocks_for(count, 2));
  PhiloxBlock block{};
  for (std::int64_t i = 0; i < count - 1; ++i) {  // Fisher-Yates: position i takes any element that has no position yet
    if (i % 2 == 0)
      block = philox(philox_counter(start.stream, start.offset + std::uint64_t(i / 2)), philox_key(start.seed));
    std::swap(order[i], order[i + std::int64_t(to_range(block.wide(i % 2), std::uint64_t(count - i)))]);
  }
}

}  // namespace

Tensor rand(const Shape& sizes, const TensorOptions& options) {
  Tensor result = empty(sizes, floating_options("rand", options));
  fill_uniform("rand", result, 0, 1);
  return result;
}

Tensor randn(const Shape& sizes, const TensorOptions& options) {
  Tensor result = empty(sizes, floating_options("randn", options));
  fill_normal("randn", result, 0, 1);
  return result;
}

Tensor randint(std::int64_t low, std::int64_t high, const Shape& sizes, const TensorOptions& options) {
  TensorOptions typed = options;
  if (!typed.dtype) typed.dtype = kInt64;
  expect(low < high, "randint", "low < high, got low ", low, " and high ", high);
  return visit_numeric("randint", *typed.dtype, [&]<class T>() {
    expect(holds<T>(low) && holds<T>(high - 1), "randint", "integers that ", *typed.dtype, " holds, got low ", low,
           " and high ", high);
    Tensor result = empty(sizes, typed);
    fill_random<T>("randint", result, Integer<T>{low, std::uint64_t(high) - std::uint64_t(low)});
    return result;
  });
}

Tensor randperm(std::int64_t count, const TensorOptions& options) {
  TensorOptions typed = options;
  if (!typed.dtype) typed.dtype = kInt64;
  expect(count >= 0, "randperm", "a count of at least 0, got ", count);
  visit_numeric("randperm", *typed.dtype, [&]<class T>() {
    expect(count == 0 || holds<T>(count - 1), "randperm", "a count that ", *typed.dtype, " holds, got ", count);
  });
  Tensor result = empty({count}, typed);
  const bool in_place = result.device().is_cpu() && result.dtype() == kInt64;
  const Tensor order = in_place ? result : empty({count}, {.dtype = kInt64});
  shuffle(order.data<std::int64_t>(), count);
  if (!in_place) copy_values(result, order);
  return result;
}

Tensor rand_like(const Tensor& like, const TensorOptions& options) {
  const TensorOptions typed = like_options("rand_like", like, options);
  return rand(like.sizes(), typed);
}
Tensor randn_like(const Tensor& like, const TensorOptions& options) {
  const TensorOptions typed = like_options("randn_like", like, options);
  return randn(like.sizes(), typed);
}
Tensor randint_like(const Tensor& like, std::int64_t low, std::int64_t high, const TensorOptions& options) {
  const TensorOptions typed = like_options("randint_like", like, options);
  return randint(low, high, like.sizes(), typed);
}

// Both write without recording: if an operation saved the old values, its backward throws because the version changed.
Tensor& uniform_(Tensor& tensor, double low, double high) {
  check_target("uniform_", tensor);
  fill_uniform("uniform_", tensor, low, high);
  bump_version(tensor);
  return tensor;
}

Tensor& normal_(Tensor& tensor, double mean, double standard_deviation) {
  check_target("normal_", tensor);
  fill_normal("normal_", tensor, mean, standard_deviation);
  bump_version(tensor);
  return tensor;
}

}  // namespace lockstep
