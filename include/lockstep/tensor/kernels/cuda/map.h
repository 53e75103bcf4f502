// The elementwise pattern on a GPU. Dense operands: a pack of neighbouring elements at a time, of up to 16 bytes.
// Others: one element at a time, its places found by a walk.
#pragma once

#include <tuple>
#include <utility>

#include <lockstep/tensor/kernels/cuda/grid.h>
#include <lockstep/tensor/kernels/cuda/pack.h>
#include <lockstep/tensor/kernels/cuda/walk.h>
#include <lockstep/tensor/kernels/visit.h>

namespace lockstep {
template <class F, class Out, class... In>
struct MapKernel;
}

namespace lockstep::gpu {

/// f on stored elements.
template <class Out, class F, class... In>
__device__ Out apply(const F& f, const In&... in) {
  return Out(ComputeType<Out>(f(ComputeType<In>(in)...)));
}

template <int kPack, class F, class Out, class... In>
__global__ void map_dense(const F f, Out* out, std::int64_t count, const In*... in) {
  const std::int64_t packs = count / kPack;
  for (std::int64_t p = first_item(); p < packs; p += item_step()) {
    const std::tuple<Pack<In, kPack>...> from = {reinterpret_cast<const Pack<In, kPack>*>(in)[p]...};
    Pack<Out, kPack> to;
    for (int i = 0; i < kPack; ++i)
      to.values[i] = std::apply([&](const auto&... pack) { return apply<Out>(f, pack.values[i]...); }, from);
    reinterpret_cast<Pack<Out, kPack>*>(out)[p] = to;
  }
  for (std::int64_t i = packs * kPack + first_item(); i < count; i += item_step()) out[i] = apply<Out>(f, in[i]...);
}

template <class F, class Out, class... In, std::size_t... I>
__device__ void map_at(const std::array<std::int64_t, 1 + sizeof...(In)>& at, std::index_sequence<I...>, const F& f,
                       Out* out, const In*... in) {
  out[at[0]] = apply<Out>(f, in[at[I + 1]]...);
}

template <class F, class Out, class... In>
__global__ void map_strided(const F f, const Walk<1 + sizeof...(In)> walk, std::int64_t count, Out* out,
                            const In*... in) {
  for (std::int64_t i = first_item(); i < count; i += item_step())
    map_at(walk(i), std::index_sequence_for<In...>(), f, out, in...);
}

template <class F, class Out, class... In>
void enqueue(const MapKernel<F, Out, In...>& kernel, const KernelContext& context) {
  constexpr int kPack = kPackOf<Out, In...>;
  const std::int64_t count = kernel.geometry.numel;
  std::apply(
      [&](const In*... in) {
        if (kernel.geometry.dense && is_aligned<kPack>(kernel.out) && (is_aligned<kPack>(in) && ...))
          launch_grid(map_dense<kPack, F, Out, In...>, blocks_for((count + kPack - 1) / kPack), kThreads, context,
                      kernel.f, kernel.out, count, in...);
        else
          launch_grid(map_strided<F, Out, In...>, blocks_for(count), kThreads, context, kernel.f,
                      Walk<1 + sizeof...(In)>(kernel.geometry), count, kernel.out, in...);
      },
      kernel.in);
}

}  // namespace lockstep::gpu
