// New tensors. Random tensors are in random.h.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// Types that may stand in place of TensorOptions, a dtype or a device: zeros({2, 2}, kInt64); rand({5}, "cuda:1").
template <class T>
concept OneOption = std::same_as<T, DType> || std::convertible_to<T, Device>;
template <OneOption T>
TensorOptions options_of(const T& option) {
  if constexpr (std::same_as<T, DType>)
    return {.dtype = option};
  else
    return {.device = Device(option)};
}

/// Uninitialized. Throws ShapeError for a negative size.
LOCKSTEP_API Tensor empty(const Shape& sizes, const TensorOptions& options = {});
LOCKSTEP_API Tensor zeros(const Shape& sizes, const TensorOptions& options = {});  ///< Zeros. Throws as empty().
LOCKSTEP_API Tensor ones(const Shape& sizes, const TensorOptions& options = {});   ///< Ones. Throws as empty().
/// Filled with `value`. The default dtype is that of the value's type: float32, int64 or bool. Throws as empty().
LOCKSTEP_API Tensor full(const Shape& sizes, double value, const TensorOptions& options = {});
namespace detail {
LOCKSTEP_API Tensor full_of_integers(const Shape& sizes, std::int64_t value, const TensorOptions& options);
template <class T>
std::int64_t kept_as_int64(T value);
}  // namespace detail
template <std::integral T>
Tensor full(const Shape& sizes, T value, TensorOptions options = {}) {  ///< For an integer or a bool.
  if (!options.dtype) options.dtype = std::same_as<T, bool> ? kBool : kInt64;
  return detail::full_of_integers(sizes, detail::kept_as_int64(value), options);
}

/// start, start + step, ... before stop. int64, unless the options give another dtype or an argument is fractional.
/// Throws InvalidArgument if the step is 0 or has the wrong sign, so that it does not lead from start to stop.
LOCKSTEP_API Tensor arange(double start, double stop, double step = 1, const TensorOptions& options = {});
inline Tensor arange(double stop, const TensorOptions& options = {}) { return arange(0, stop, 1, options); }

/// linspace: `steps` evenly spaced numbers from start to stop, both included. logspace: base to the power of these
/// numbers. float32 unless the options give another dtype. Both throw InvalidArgument for a negative count.
LOCKSTEP_API Tensor linspace(double start, double stop, std::int64_t steps, const TensorOptions& options = {});
LOCKSTEP_API Tensor logspace(double start, double stop, std::int64_t steps, double base = 10,
                             const TensorOptions& options = {});
/// [rows, columns], or [rows, rows]: ones on the diagonal, zeros elsewhere.
LOCKSTEP_API Tensor eye(std::int64_t rows, const TensorOptions& options = {});
LOCKSTEP_API Tensor eye(std::int64_t rows, std::int64_t columns, const TensorOptions& options = {});

/// Tensors with the shape of `like`, and with its dtype and device unless the options give others. In all else like
/// empty(), zeros(), ones() and full().
LOCKSTEP_API Tensor empty_like(const Tensor& like, const TensorOptions& options = {});
LOCKSTEP_API Tensor zeros_like(const Tensor& like, const TensorOptions& options = {});
LOCKSTEP_API Tensor ones_like(const Tensor& like, const TensorOptions& options = {});
LOCKSTEP_API Tensor full_like(const Tensor& like, double value, const TensorOptions& options = {});

/// A copy of host values, row-major. Throws ShapeError unless `count` is the number of elements of `sizes`,
/// InvalidArgument for a null pointer if count > 0.
LOCKSTEP_API Tensor from_host(const void* values, std::size_t count, DType dtype, const Shape& sizes,
                              const TensorOptions& options = {});

/// A tensor over the caller's memory on the CPU, row-major, of options.dtype; nothing is copied. The memory must
/// outlive all handles and views; when the last one is destroyed, `deleter`, if any, gets the memory. Throws
/// InvalidArgument for another device, for pinned_memory, and for a pointer that is null or not aligned for the dtype.
LOCKSTEP_API Tensor from_blob(void* memory, const Shape& sizes, const TensorOptions& options = {},
                              std::function<void(void*)> deleter = {});

/// The element type in which values of a C++ type are stored. As in PyTorch, doubles become float32 and integers int64;
/// std::uint8_t and bool keep their type.
template <class T>
using TensorElement = std::conditional_t<
    std::is_same_v<T, bool>, bool,
    std::conditional_t<std::is_integral_v<T>,
                       std::conditional_t<std::is_same_v<T, std::uint8_t>, std::uint8_t, std::int64_t>,
                       std::conditional_t<std::is_floating_point_v<T>, float, T>>>;

namespace detail {
template <class T>
void append(std::vector<T>& all, std::initializer_list<T> values) {
  all.insert(all.end(), values.begin(), values.end());
}
LOCKSTEP_API void check_rectangular(std::size_t expected, std::size_t got);
[[noreturn]] LOCKSTEP_API void throw_too_large(std::uint64_t value);

template <class T>
std::int64_t kept_as_int64(T value) {
  if constexpr (std::is_unsigned_v<T>)
    if (std::uint64_t(value) > std::uint64_t(std::numeric_limits<std::int64_t>::max())) throw_too_large(value);
  return std::int64_t(value);
}
template <class T>
TensorElement<T> kept_as_element(T value) {
  if constexpr (std::is_same_v<TensorElement<T>, std::int64_t>)
    return kept_as_int64(value);
  else
    return TensorElement<T>(value);
}

template <class T>
Tensor from_values(const std::vector<T>& values, const Shape& sizes, TensorOptions options) {
  if constexpr (std::is_floating_point_v<T>) {
    if (!options.dtype) options.dtype = kFloat32;
    return from_host(values.data(), values.size(), kDTypeOf<T>, sizes, options);
  } else {
    using Element = TensorElement<T>;
    const auto count = values.size();
    const auto kept = std::make_unique<Element[]>(count);  // not a vector: vector<bool> has no contiguous array
    for (std::size_t i = 0; i < count; ++i) kept[i] = kept_as_element<T>(values[i]);
    return from_host(kept.get(), count, kDTypeOf<Element>, sizes, options);
  }
}
}  // namespace detail

/// tensor(2.5): 0-dim. tensor({1, 2, 3}): int64. tensor({{1., 2.}, {3., 4.}}): float32. Throws InvalidArgument for an
/// integer that int64 does not hold.
template <class T>
requires std::is_arithmetic_v<T> Tensor tensor(T value, const TensorOptions& options = {}) {
  if constexpr (std::is_floating_point_v<T>) {
    const double kept = value;
    TensorOptions typed = options;
    if (!typed.dtype) typed.dtype = kFloat32;
    return from_host(&kept, 1, kFloat64, {}, typed);
  } else {
    const auto kept = detail::kept_as_element(value);
    return from_host(&kept, 1, kDTypeOf<TensorElement<T>>, {}, options);
  }
}

/// tensor() of a list.
template <class T>
requires std::is_arithmetic_v<T> Tensor tensor(std::initializer_list<T> values, const TensorOptions& options = {}) {
  return detail::from_values(std::vector<T>(values), {std::int64_t(values.size())}, options);
}

/// tensor() of a list of lists. Throws ShapeError for rows of different lengths.
template <class T>
requires std::is_arithmetic_v<T> Tensor tensor(std::initializer_list<std::initializer_list<T>> rows,
                                               const TensorOptions& options = {}) {
  std::vector<T> all;
  const std::size_t columns = rows.size() ? rows.begin()->size() : 0;
  for (const auto& row : rows) {
    detail::check_rectangular(columns, row.size());
    detail::append(all, row);
  }
  return detail::from_values(all, {std::int64_t(rows.size()), std::int64_t(columns)}, options);
}

/// tensor() of a vector.
template <class T>
requires std::is_arithmetic_v<T> Tensor tensor(const std::vector<T>& values, const TensorOptions& options = {}) {
  return detail::from_values(values, {std::int64_t(values.size())}, options);
}

/// tensor() of an array.
template <class T, std::size_t kSize>
requires std::is_arithmetic_v<T> Tensor tensor(const std::array<T, kSize>& values, const TensorOptions& options = {}) {
  return detail::from_values(std::vector<T>(values.begin(), values.end()), {std::int64_t(kSize)}, options);
}

// The functions above with a dtype or a device in place of the options.
template <OneOption T>
Tensor empty(const Shape& sizes, const T& option) {
  return empty(sizes, options_of(option));
}
template <OneOption T>
Tensor zeros(const Shape& sizes, const T& option) {
  return zeros(sizes, options_of(option));
}
template <OneOption T>
Tensor ones(const Shape& sizes, const T& option) {
  return ones(sizes, options_of(option));
}
template <class Number, OneOption T>
requires std::is_arithmetic_v<Number> Tensor full(const Shape& sizes, Number value, const T& option) {
  return full(sizes, value, options_of(option));
}
template <OneOption T>
Tensor arange(double stop, const T& option) {
  return arange(stop, options_of(option));
}
template <OneOption T>
Tensor arange(double start, double stop, double step, const T& option) {
  return arange(start, stop, step, options_of(option));
}
template <OneOption T>
Tensor linspace(double start, double stop, std::int64_t steps, const T& option) {
  return linspace(start, stop, steps, options_of(option));
}
template <OneOption T>
Tensor eye(std::int64_t rows, const T& option) {
  return eye(rows, options_of(option));
}
template <OneOption T>
Tensor empty_like(const Tensor& like, const T& option) {
  return empty_like(like, options_of(option));
}
template <OneOption T>
Tensor zeros_like(const Tensor& like, const T& option) {
  return zeros_like(like, options_of(option));
}
template <OneOption T>
Tensor ones_like(const Tensor& like, const T& option) {
  return ones_like(like, options_of(option));
}
template <OneOption T>
Tensor full_like(const Tensor& like, double value, const T& option) {
  return full_like(like, value, options_of(option));
}
template <OneOption T>
Tensor from_blob(void* memory, const Shape& sizes, const T& option) {
  return from_blob(memory, sizes, options_of(option));
}
template <class T, OneOption O>
requires std::is_arithmetic_v<T> Tensor tensor(T value, const O& option) { return tensor(value, options_of(option)); }
template <class T, OneOption O>
requires std::is_arithmetic_v<T> Tensor tensor(std::initializer_list<T> values, const O& option) {
  return tensor(values, options_of(option));
}
template <class T, OneOption O>
requires std::is_arithmetic_v<T> Tensor tensor(std::initializer_list<std::initializer_list<T>> rows, const O& option) {
  return tensor(rows, options_of(option));
}
template <class T, OneOption O>
requires std::is_arithmetic_v<T> Tensor tensor(const std::vector<T>& values, const O& option) {
  return tensor(values, options_of(option));
}
template <class T, std::size_t kSize, OneOption O>
requires std::is_arithmetic_v<T> Tensor tensor(const std::array<T, kSize>& values, const O& option) {
  return tensor(values, options_of(option));
}

}  // namespace lockstep
