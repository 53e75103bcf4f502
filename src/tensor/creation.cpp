#include <lockstep/tensor/creation.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/context.h"
#include "core/text.h"
#include "cpu/parallel.h"
#include "kernels/map/map.h"
#include "tensor/copy.h"
#include "tensor/deferred_memory.h"

namespace lockstep {
namespace {

template <class T>
struct Fill {
  static constexpr bool kArithmetic = true;
  T value;
  LOCKSTEP_HD T operator()() const { return value; }
};

TensorOptions like_options(const Tensor& like, TensorOptions options) {
  if (!options.dtype) options.dtype = like.dtype();
  if (!options.device) options.device = like.device();
  return options;
}

void check_pinned_on_cpu(const char* op, const TensorOptions& options) {
  if (options.pinned_memory && options.device && !options.device->is_cpu())
    throw InvalidArgument(text("[", op, "] expected the CPU with pinned_memory, got ", *options.device));
}

template <class T>
struct ArangeKernel {
  T* out;
  std::int64_t count;
  double start, step;
  void operator()(const KernelContext& context) const {
    host::vectorized_for(context, count, 1 << 15, [this](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) item(i);
    });
  }
  std::int64_t items() const { return count; }
  LOCKSTEP_HD void item(std::int64_t i) const { out[i] = T(ComputeType<T>(start + double(i) * step)); }
};

}  // namespace

Tensor empty(const Shape& sizes, const TensorOptions& options) {
  check_pinned_on_cpu("empty", options);
  const DType dtype = options.dtype.value_or(kFloat32);
  const Device device = options.device.value_or(Device());
  const bool is_deferred = context().defers_init && device.is_cpu() && !options.pinned_memory;
  Tensor result = is_deferred             ? make_deferred(sizes, dtype, {})
                  : options.pinned_memory ? make_pinned("empty", sizes, dtype)
                                          : make_tensor(device_state(device), sizes, dtype);
  if (options.requires_grad) result.requires_grad_();
  return result;
}

Tensor full(const Shape& sizes, double value, const TensorOptions& options) {
  Tensor result = empty(sizes, options);
  check_fits("full", value, result.dtype());
  fill_values(result, value);
  return result;
}

Tensor detail::full_of_integers(const Shape& sizes, std::int64_t value, const TensorOptions& options) {
  if (options.dtype != kInt64 || std::abs(value) < std::int64_t(1) << 53) return full(sizes, double(value), options);
  const Tensor one = from_host(&value, 1, kInt64, {}, {.device = options.device});  // a double would round the value
  const Tensor all = one.expand(sizes).clone();
  return options.pinned_memory ? all.pin_memory() : all;
}

Tensor zeros(const Shape& sizes, const TensorOptions& options) { return full(sizes, 0., options); }
Tensor ones(const Shape& sizes, const TensorOptions& options) { return full(sizes, 1., options); }

Tensor empty_like(const Tensor& like, const TensorOptions& options) {
  return empty(like.sizes(), like_options(like, options));
}
Tensor zeros_like(const Tensor& like, const TensorOptions& options) { return full_like(like, 0, options); }
Tensor ones_like(const Tensor& like, const TensorOptions& options) { return full_like(like, 1, options); }
Tensor full_like(const Tensor& like, double value, const TensorOptions& options) {
  return full(like.sizes(), value, like_options(like, options));
}

Tensor arange(double start, double stop, double step, const TensorOptions& options) {
  const double count = std::ceil((stop - start) / step);
  if (!(step != 0) || !(count >= 0 && count < 0x1p63))
    throw InvalidArgument(text("[arange] expected a step that leads from ", start, " to ", stop, ", got ", step));
  TensorOptions typed = options;
  const bool whole = std::floor(start) == start && std::floor(stop) == stop && std::floor(step) == step;
  if (!typed.dtype) typed.dtype = whole ? kInt64 : kFloat32;
  Tensor result = empty({std::int64_t(count)}, typed);
  if (result.numel() == 0) return result;
  visit_numeric("arange", result.dtype(), [&]<class T>() {
    const ArangeKernel<T> kernel{reinterpret_cast<T*>(result.impl()->data()), result.numel(), start, step};
    launch("arange", 2.0 * double(result.numel()), result, {}, kernel);
  });
  return result;
}

Tensor linspace(double start, double stop, std::int64_t steps, const TensorOptions& options) {
  if (steps < 0) throw InvalidArgument(text("[linspace] expected a count of at least 0, got ", steps));
  std::vector<double> values(std::size_t(steps), start);
  const double step = (stop - start) / double(std::max<std::int64_t>(1, steps - 1));
  for (std::int64_t i = 1; i < steps; ++i)  // computed from the nearer end, so that both ends are exact
    values[std::size_t(i)] = i < steps / 2 ? start + step * double(i) : stop - step * double(steps - 1 - i);
  return detail::from_values(values, steps, options);
}

Tensor logspace(double start, double stop, std::int64_t steps, double base, const TensorOptions& options) {
  std::vector<double> values = linspace(start, stop, steps, kFloat64).to_vector<double>();
  for (double& value : values) value = std::pow(base, value);
  return detail::from_values(values, steps, options);
}

Tensor eye(std::int64_t rows, const TensorOptions& options) { return eye(rows, rows, options); }
Tensor eye(std::int64_t rows, std::int64_t columns, const TensorOptions& options) {
  Tensor result = zeros({rows, columns},
                        {.dtype = options.dtype, .device = options.device, .pinned_memory = options.pinned_memory});
  fill_values(result.view(-1).slice(0, 0, std::min(rows, columns) * columns, columns + 1), 1);
  if (options.requires_grad) result.requires_grad_();
  return result;
}

Tensor from_blob(void* memory, const Shape& sizes, const TensorOptions& options, std::function<void(void*)> deleter) {
  const DType dtype = options.dtype.value_or(kFloat32);
  if (options.device && !options.device->is_cpu())
    throw InvalidArgument(text("[from_blob] expected memory of the CPU, got the device ", *options.device));
  if (options.pinned_memory)
    throw InvalidArgument("[from_blob] cannot pin the caller's memory: use pin_memory(), which makes a pinned copy");
  const std::int64_t numel = checked_elements("from_blob", sizes);
  if ((!memory && numel) || reinterpret_cast<std::uintptr_t>(memory) % size_of(dtype))
    throw InvalidArgument(text("[from_blob] expected memory aligned for ", dtype, ", got the address ", memory));
  Tensor result = make_tensor(device_state(Device()), 0, dtype);  // counted in DeviceState::empty_storages
  TensorImpl& impl = *result.impl();
  impl.numel = numel;
  impl.sizes = sizes;
  impl.strides = contiguous_strides(sizes);
  impl.storage->bytes = std::size_t(numel) * size_of(dtype);
  impl.storage->allocation.memory = memory;
  if (deleter) impl.storage->borrowed = std::shared_ptr<void>(memory, std::move(deleter));
  if (options.requires_grad) result.requires_grad_();
  return result;
}

Tensor from_host(const void* values, std::size_t count, DType dtype, const Shape& sizes, const TensorOptions& options) {
  if (const std::int64_t expected = checked_elements("tensor", sizes); std::int64_t(count) != expected)
    throw ShapeError(text("[tensor] expected ", expected, " values for shape ", sizes, ", got ", count));
  if (count && !values) throw InvalidArgument(text("[tensor] expected ", count, " values, got a null pointer"));
  check_pinned_on_cpu("tensor", options);
  DeviceState& cpu = device_state(Device());
  Tensor host = make_tensor(cpu, sizes, dtype);
  if (count) std::memcpy(host.impl()->data(), values, count * size_of(dtype));
  DeviceState& device = device_state(options.device.value_or(Device()));
  const DType target = options.dtype.value_or(dtype);
  Tensor result = &device == &cpu && target == dtype ? host : copied(host, device, target);
  if (options.pinned_memory) result = result.pin_memory();
  if (options.requires_grad) result.requires_grad_();
  return result;
}

void detail::check_rectangular(std::size_t expected, std::size_t got) {
  if (expected != got) throw ShapeError(text("[tensor] expected rows of ", expected, " values, got one of ", got));
}

void detail::throw_too_large(std::uint64_t value) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  throw InvalidArgument(text("[tensor] expected integers up to ", kMost, ", got ", value));
}

void check_fits(const char* op, double value, DType dtype) {
  visit_all(dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      // Negative numbers wrap in unsigned dtypes, as in PyTorch. A double can be 2^63, but not the greatest int64.
      const double above = 2. * double(std::numeric_limits<T>::max() / 2 + 1);
      const double least = std::is_signed_v<T> ? double(std::numeric_limits<T>::min()) : 1 - above;
      if (!(value >= least && value < above))
        throw InvalidArgument(text("[", op, "] expected a number that ", dtype, " can hold, got ", value));
    }
  });
}

void fill_values(const Tensor& tensor, double value) {
  if (defer(tensor, [value](const Tensor& flat) { fill_values(flat, value); })) return;
  visit_all(tensor.dtype(), [&]<class T>() {
    using Kept = ComputeType<T>;
    Kept kept;
    if constexpr (std::is_same_v<T, bool>)
      kept = value != 0;
    else if constexpr (std::is_integral_v<T>)
      kept = Kept(std::int64_t(value));  // wraps; a double outside of T's range must not be converted to T
    else
      kept = Kept(value);
    map<T>("fill", 0, Fill<Kept>{kept}, tensor);
  });
}

}  // namespace lockstep
