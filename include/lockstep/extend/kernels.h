// Custom kernels, without a gradient. A kernel is a function object that is called for the elements or rows of tensors;
// its arithmetic is written once. The same object runs on the CPU, on simulated devices and, if lockstep_kernels() of
// the CMake package compiles its source, on GPUs. Functions that the object calls must be marked LOCKSTEP_HD. The
// object is copied to the device, so it must be trivially copyable and at most 2048 bytes.
//
// The inputs are tensors of one floating dtype on one device, in any layout. 16-bit floats are computed as float. map()
// and map_several() take at most 24 tensors, inputs and results together. Results are new tensors. All work is enqueued
// on the current stream of the inputs' device. `name` is a string literal, used in errors and in the trace. Before
// anything is enqueued, these functions throw InvalidArgument for an undefined tensor, or if a GPU needs a kernel that
// was compiled without lockstep_kernels(); DeviceMismatch; DTypeError; and ShapeError.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include <lockstep/extend/operand.h>
#include <lockstep/kernels/forms.h>
#include <lockstep/kernels/map_kernel.h>
#include <lockstep/kernels/multi_output_kernel.h>
#include <lockstep/kernels/row_kernel.h>
#include <lockstep/tensor/creation.h>

namespace lockstep::extend {

namespace detail {
template <class T, class>
using Always = T;

template <class... Inputs>
std::array<const Tensor*, sizeof...(Inputs)> pointers(const Inputs&... inputs) {
  return {&inputs...};
}

// result = f(inputs...). All have one dtype and one device.
template <class F, class... Inputs>
void map_to(const char* name, const F& f, const Tensor& result, const Inputs&... inputs) {
  const Operand to = operand_of(name, result);
  if (to.numel == 0) return;
  const auto& forms = visit_floating(
      name, result.dtype(), [&]<class T>() -> const auto& { return map_forms<F, T, Always<T, Inputs>...>(); });
  ElementwiseKernel<F, 1 + sizeof...(Inputs)> kernel{
      {{to.data, operand_of(name, inputs).data...}, make_geometry(to.sizes, to, operand_of(name, inputs)...)},
      f,
      &forms};
  if (!kernel.operands.geometry.dense) lengthen_rows(kernel.operands.geometry);
  const std::array written = pointers(result);
  const std::array read = pointers(inputs...);
  enqueue({name, double(to.numel), written, read, kHasDeviceForms}, in_all_forms(kernel));
}

// Calls f(results..., inputs...) for each element. The results have one shape, to which the inputs broadcast.
template <class F, std::size_t... K, class... Inputs>
void map_several_to(const char* name, const F& f, const std::array<Tensor, sizeof...(K)>& results,
                    std::index_sequence<K...>, const Inputs&... inputs) {
  const Operand to = operand_of(name, results[0]);
  if (to.numel == 0) return;
  const auto& forms = visit_floating(
      name, results[0].dtype(), [&]<class T>() -> const auto& {
        return multi_output_forms<F, Always<T, decltype(K)>..., Always<const T, Inputs>...>();
      });
  const ElementwiseKernel<F, sizeof...(K) + sizeof...(Inputs)> kernel{
      {{operand_of(name, results[K]).data..., operand_of(name, inputs).data...},
       make_geometry(to.sizes, operand_of(name, results[K])..., operand_of(name, inputs)...)},
      f,
      &forms};
  const std::array written = pointers(results[K]...);
  const std::array read = pointers(inputs...);
  enqueue({name, double(to.numel), written, read, kHasDeviceForms}, in_all_forms(kernel));
}
}  // namespace detail

/// result[i] = f(inputs[i]...); the inputs broadcast. f(T...) -> T, for T float and double.
template <class F, class... Inputs>
Tensor map(const char* name, const F& f, const Inputs&... inputs) {
  const std::array all = detail::pointers(inputs...);
  check_operands(name, all);
  Tensor result = make_result(name, all);
  detail::map_to(name, f, result, inputs...);
  return result;
}

/// map() with several results: f(T& result..., T input...) writes kResults results.
template <std::size_t kResults, class F, class... Inputs>
std::array<Tensor, kResults> map_several(const char* name, const F& f, const Inputs&... inputs) {
  const std::array all = detail::pointers(inputs...);
  check_operands(name, all);
  std::array<Tensor, kResults> results;
  for (Tensor& result : results) result = make_result(name, all);
  detail::map_several_to(name, f, results, std::make_index_sequence<kResults>(), inputs...);
  return results;
}

struct RowOptions {
  std::int64_t dim = -1;
  std::optional<std::int64_t> length = {};  ///< The result's size along `dim`; default: the first input's size.
};

namespace detail {
struct RowPlan {
  int dim;
  std::int64_t rows;
  Shape result_sizes;
};
LOCKSTEP_API RowPlan plan_rows(const char* op, std::span<const Tensor* const> inputs, const RowOptions& options);
}  // namespace detail

/// Computes a row of the result from a row of each input, along options.dim: f(team, RowOf<T> result, RowOf<const T>
/// inputs...), for each floating dtype T. Rows hold elements as they are stored: compute in ComputeType<T>. `team` is
/// the group of threads that works on the row. All loops over the row must be team.each(), team.reduce() or sum_over()
/// (kernels/row_team.h), and f must make the same calls for every row. The inputs have one rank, and the same sizes
/// except along `dim` (expand() broadcasts).
template <class F, class... Inputs>
Tensor map_rows(const char* name, const F& f, const RowOptions& options, const Tensor& first, const Inputs&... more) {
  constexpr int kOperands = 2 + int(sizeof...(Inputs));
  const std::array read = detail::pointers(first, more...);
  const DType dtype = check_operands(name, read);
  const detail::RowPlan plan = detail::plan_rows(name, read, options);
  const Tensor result = empty(plan.result_sizes, {.dtype = dtype, .device = first.device()});
  if (plan.rows == 0 || result.numel() == 0) return result;
  visit_floating(name, dtype, [&]<class T>() {
    const Operand to = operand_of(name, result);
    const std::array from = {operand_of(name, first), operand_of(name, more)...};
    const auto kernel = [&]<std::size_t... K>(std::index_sequence<K...>) {
      const auto rows =
          rows_along<kOperands>(plan.dim, {&to.sizes, &from[K].sizes...}, {&to.strides, &from[K].strides...});
      return RowKernel<F, T, T, detail::Always<T, Inputs>...>{
          rows, f, reinterpret_cast<T*>(to.data), {from[K].data...}};
    }
    (std::make_index_sequence<std::size_t(kOperands - 1)>());
    const std::array written = detail::pointers(result);
    enqueue({name, double(first.numel()), written, read, kHasDeviceForms}, in_all_forms(kernel));
  });
  return result;
}

}  // namespace lockstep::extend
