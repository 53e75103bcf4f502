#include <lockstep/tensor/creation.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "core/text.h"
#include "runtime/host/parallel.h"
#include "tensor/copy.h"
#include "tensor/kernels/map.h"

namespace lockstep {
namespace {

template <class T>
struct Fill {
  T value;
  LOCKSTEP_HD T operator()() const { return value; }
};

TensorOptions like_options(const Tensor& like, TensorOptions options) {
  if (!options.dtype) options.dtype = like.dtype();
  if (!options.device) options.device = like.device();
  return options;
}

template <class T>
struct ArangeKernel {
  T* out;
  std::int64_t count;
  double start, step;
  void operator()(const KernelContext& context) const {
    host::parallel_for(context, count, 1 << 15, [this](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) item(i);
    });
  }
  std::int64_t items() const { return count; }
  LOCKSTEP_HD void item(std::int64_t i) const { out[i] = T(ComputeType<T>(start + double(i) * step)); }
};

}  // namespace

Tensor empty(const Shape& sizes, const TensorOptions& options) {
  Tensor result = make_tensor(device_state(options.device.value_or(Device())), sizes, options.dtype.value_or(kFloat32));
  if (options.requires_grad) result.requires_grad_();
  return result;
}

Tensor full(const Shape& sizes, double value, const TensorOptions& options) {
  Tensor result = empty(sizes, options);
  fill_values(result, value);
  return result;
}

Tensor zeros(const Shape& sizes, const TensorOptions& options) { return full(sizes, 0, options); }
Tensor ones(const Shape& sizes, const TensorOptions& options) { return full(sizes, 1, options); }

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
    launch("arange", 2.0 * double(result.numel()), result, std::array<const Tensor*, 0>{}, kernel);
  });
  return result;
}

Tensor from_host(const void* values, std::size_t count, DType dtype, const Shape& sizes, const TensorOptions& options) {
  if (const std::int64_t expected = checked_elements("tensor", sizes); std::int64_t(count) != expected)
    throw ShapeError(text("[tensor] expected ", expected, " values for shape ", sizes, ", got ", count));
  if (count && !values) throw InvalidArgument(text("[tensor] expected ", count, " values, got a null pointer"));
  DeviceState& cpu = device_state(Device());
  Tensor host = make_tensor(cpu, sizes, dtype);
  if (count) std::memcpy(host.impl()->data(), values, count * size_of(dtype));
  DeviceState& device = device_state(options.device.value_or(Device()));
  const DType target = options.dtype.value_or(dtype);
  Tensor result = &device == &cpu && target == dtype ? host : copied(host, device, target);
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

void fill_values(const Tensor& tensor, double value) {
  visit_all(tensor.dtype(), [&]<class T>() {
    using Kept = ComputeType<T>;
    map<T>("fill", 0, Fill<Kept>{std::is_same_v<T, bool> ? Kept(value != 0) : Kept(value)}, tensor);
  });
}

}  // namespace lockstep
