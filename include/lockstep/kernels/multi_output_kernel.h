// The elementwise kernel with several outputs: calls f(a[i], b[i], ...), where f takes references and writes some of
// them. Fused cells and fused normalizations use it, so that their intermediate values are never written to memory. Its
// form for GPUs: cuda/multi_output.h.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include <lockstep/core/vectorized.h>
#include <lockstep/kernels/elementwise_kernel.h>
#include <lockstep/kernels/forms.h>

namespace lockstep {

template <class F, class... T>
LOCKSTEP_INLINE void multi_output_elements(const F& function, std::int64_t count, T*... at) {
  const F f = function;  // a copy, which no operand can alias
  LOCKSTEP_IVDEP
  for (std::int64_t i = 0; i < count; ++i) f(at[i]...);
}
template <class F, class... T>
void multi_output_loop(const void* f, std::int64_t count, std::byte* const* operands) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    vectorized([&] { multi_output_elements(*static_cast<const F*>(f), count, reinterpret_cast<T*>(operands[I])...); });
  }
  (std::index_sequence_for<T...>());
}

template <class... T>
inline constexpr auto kMultiOutputOperands = elementwise_operands(elementwise_operand<T>(true)...);

/// T's compute type. It is const if T is const: f only reads such an operand.
template <class T>
using ComputedAs = std::conditional_t<std::is_const_v<T>, const ComputeType<std::remove_const_t<T>>,
                                      ComputeType<std::remove_const_t<T>>>;

// kGrain: up to this many elements are not divided between tasks.
template <std::int64_t kGrain, class F, class... T>
inline constexpr ElementwiseLoop kMultiOutputLoop = {multi_output_loop<F, ComputedAs<T>...>,
                                                     kMultiOutputOperands<T...>.data(), kGrain, false,
                                                     kAreStoredAsComputed<T...>};

template <class F, class... T>
inline constexpr ElementwiseForms<F, sizeof...(T)> kMultiOutputForms = {
    kMultiOutputLoop<1 << 13, F, T...>, LOCKSTEP_GRIDS(gpu::enqueue_multi_output<F, T...>)};

/// The forms of f(a, b, ...) for elements of these types, const where f only reads.
template <class F, class... T>
constexpr const ElementwiseForms<F, sizeof...(T)>& multi_output_forms() {
  return kMultiOutputForms<F, T...>;
}

}  // namespace lockstep
