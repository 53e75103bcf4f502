// The code that three kinds of elementwise kernels share: those with one output, out[i] = f(in0[i], in1[i], ...)
// (map_kernel.h), those with several outputs (multi_output_kernel.h), and those over many tensors (multi_map.h). For
// each function and compute type (the type in which arithmetic is done: float for 16-bit floats), one loop over whole
// vectors is compiled. The code around the loop is compiled once for all functions: elementwise_kernel.cpp.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <lockstep/core/export.h>
#include <lockstep/core/vectorized.h>
#include <lockstep/kernels/geometry.h>
#include <lockstep/kernels/visit.h>
#include <lockstep/runtime/kernel.h>

namespace lockstep {

/// Elements of a vector. Loops run over whole vectors only: the remaining elements are copied to a buffer and padded to
/// a whole vector. So an element's result does not depend on its position.
inline constexpr std::int64_t kVector = 16;

/// How elements are stored in memory. Loops on the host get the elements in their compute type.
enum class Stored : std::uint8_t { bytes1, bytes2, bytes4, bytes8, float16, bfloat16 };
template <class T>
inline constexpr Stored kStored = std::is_same_v<T, Half>       ? Stored::float16
                                  : std::is_same_v<T, BFloat16> ? Stored::bfloat16
                                                                : Stored(std::bit_width(sizeof(T)) - 1);

constexpr int bytes_of(Stored stored) { return stored < Stored::float16 ? 1 << int(stored) : 2; }  ///< Per element.

/// An operand of a loop.
struct ElementwiseOperand {
  Stored stored;
  bool reads, writes;  ///< True if the loop reads the operand; if it writes the operand.
};

/// T: the operand's element type, const if the loop only reads the operand. `reads`: true if the loop also reads an
/// operand that it writes.
template <class T>
constexpr ElementwiseOperand elementwise_operand(bool reads) {
  static_assert(sizeof(T) <= 8 && std::has_single_bit(sizeof(T)));
  return {kStored<std::remove_const_t<T>>, reads || std::is_const_v<T>, !std::is_const_v<T>};
}

/// The loop of a function over `count` elements of all operands in their compute types. `count` is a multiple of
/// kVector, unless the function consists of arithmetic alone. (Such a function gives a single element the same bits as
/// in a vector, so the end of a row needs no buffer.)
struct ElementwiseLoop {
  static constexpr std::size_t kMostOperands = 24;

  void (*run)(const void* f, std::int64_t count, std::byte* const* operands);
  const ElementwiseOperand* operands;
  std::int64_t grain;    ///< Up to this many elements are not divided between tasks.
  bool takes_any_count;  ///< True if `count` need not be a multiple of kVector.
  bool takes_stored;     ///< True if all operands are stored in their compute types.
};
/// The operands of a loop.
template <class... Operand>
constexpr auto elementwise_operands(Operand... operand) {
  static_assert(sizeof...(Operand) <= ElementwiseLoop::kMostOperands, "elementwise kernels take 24 tensors at most");
  return std::array<ElementwiseOperand, sizeof...(Operand)>{operand...};
}
/// True if all operands are stored in their compute types.
template <class... T>
inline constexpr bool kAreStoredAsComputed =
    (std::is_same_v<ComputeType<std::remove_const_t<T>>, std::remove_const_t<T>> && ...);

/// A loop over all elements of some operands.
struct ElementwiseWork {
  const ElementwiseLoop& loop;
  const void* f;
  std::span<std::byte* const> data;  ///< The first element of each operand.

  ElementwiseWork(const ElementwiseLoop& loop_, const void* f_, std::span<std::byte* const> data_)
      : loop(loop_), f(f_), data(data_) {}
};

namespace host {
/// Runs the loop over all elements of operands that have these sizes, operand n with strides[n].
LOCKSTEP_API void elementwise(const KernelContext& context, const ElementwiseWork& work, const Shape& sizes,
                              const Shape* strides, bool dense);
/// Runs the loop over `count` consecutive elements of each operand, on the calling thread.
LOCKSTEP_API void elementwise_row(const ElementwiseWork& work, std::int64_t count);
}  // namespace host

/// The N operands of an elementwise kernel.
template <int N>
struct ElementwiseOperands {
  std::array<std::byte*, std::size_t(N)> data;
  Geometry<N> geometry;
};

template <class F, int N>
struct ElementwiseKernel;

/// The host and device forms of a kernel of N operands, for their dtypes.
template <class F, int N>
struct ElementwiseForms {
  ElementwiseLoop host;
  /// Enqueues its grids on a GPU; null if this source is not compiled for GPUs.
  void (*grids)(const ElementwiseKernel<F, N>&, const KernelContext&);
};

/// A function over the elements of N operands. Its forms fix the operands' dtypes.
template <class F, int N>
struct ElementwiseKernel {
  ElementwiseOperands<N> operands;
  F f;
  const ElementwiseForms<F, N>* forms;

  void operator()(const KernelContext& context) const {
    const ElementwiseWork work(forms->host, &f, operands.data);
    const Geometry<N>& geometry = operands.geometry;
    host::elementwise(context, work, geometry.sizes, geometry.strides.data(), geometry.dense);
  }
  void enqueue(const KernelContext& context) const { forms->grids(*this, context); }
};

}  // namespace lockstep
