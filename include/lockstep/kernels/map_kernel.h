// The elementwise kernel with one output, out[i] = f(in0[i], in1[i], ...). Its form for GPUs: cuda/map.h.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include <lockstep/core/vectorized.h>
#include <lockstep/kernels/elementwise_kernel.h>
#include <lockstep/kernels/forms.h>

namespace lockstep {

/// True if F declares kArithmetic, which says that F and its gradients use only arithmetic, no function of
/// core/elementary.h.
template <class F>
inline constexpr bool kIsArithmetic = requires {
  requires F::kArithmetic;
};

template <class F, class Out, class... In>
LOCKSTEP_INLINE void map_elements(const F& function, std::int64_t count, Out* to, const In*... from) {
  const F f = function;  // a copy, which no operand can alias
  LOCKSTEP_IVDEP
  for (std::int64_t i = 0; i < count; ++i) to[i] = Out(f(from[i]...));
}
// Compiled for several instruction sets. To limit this code, it is compiled only for compute types, and all dtypes with
// the same compute type share it.
template <class F, class Out, class... In>
void map_loop(const void* f, std::int64_t count, std::byte* const* operands) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    vectorized([&] {
      map_elements(*static_cast<const F*>(f), count, reinterpret_cast<Out*>(operands[0]),
                   reinterpret_cast<const In*>(operands[I + 1])...);
    });
  }
  (std::index_sequence_for<In...>());
}

template <class Out, class... In>
inline constexpr auto kMapOperands = elementwise_operands(elementwise_operand<Out>(false),
                                                          elementwise_operand<const In>(true)...);

template <class F, class Out, class... In>
inline constexpr ElementwiseForms<F, 1 + sizeof...(In)> kMapForms = {
    {map_loop<F, ComputeType<Out>, ComputeType<In>...>, kMapOperands<Out, In...>.data(), 1 << 15, kIsArithmetic<F>,
     kAreStoredAsComputed<Out, In...>},
    LOCKSTEP_GRIDS(gpu::enqueue_map<F, Out, In...>)};

/// The forms of out = f(in...) for elements of these types.
template <class F, class Out, class... In>
constexpr const ElementwiseForms<F, 1 + sizeof...(In)>& map_forms() {
  return kMapForms<F, Out, In...>;
}

}  // namespace lockstep
