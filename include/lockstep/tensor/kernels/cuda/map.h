// The elementwise pattern on a GPU. Dense operands: a pack of neighbouring elements at a time, of up to 16 bytes. So
// too where the last dimension is dense, or broadcast, in every operand: the place of each pack is found by a walk.
// Others: one element at a time, its place found by a walk.
#pragma once

#include <optional>
#include <tuple>
#include <utility>

#include <lockstep/tensor/kernels/cuda/grid.h>
#include <lockstep/tensor/kernels/cuda/pack.h>
#include <lockstep/tensor/kernels/cuda/walk.h>
#include <lockstep/tensor/kernels/elementwise_kernel.h>

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

// The elements from `data` on, or, where the last dimension broadcasts, so many times the first one.
template <int kPack, class T>
__device__ Pack<T, kPack> pack_at(const T* data, bool broadcasts) {
  if (!broadcasts) return *reinterpret_cast<const Pack<T, kPack>*>(data);
  Pack<T, kPack> pack;
  const T value = *data;
  for (T& each : pack.values) each = value;
  return pack;
}

template <int kPack, class F, class Out, class... In, std::size_t... I>
__device__ void map_pack_at(const std::array<std::int64_t, 1 + sizeof...(In)>& at, std::index_sequence<I...>,
                            unsigned broadcasts, const F& f, Out* out, const In*... in) {
  const std::tuple<Pack<In, kPack>...> from = {pack_at<kPack>(in + at[I + 1], broadcasts >> I & 1)...};
  Pack<Out, kPack> to;
  for (int i = 0; i < kPack; ++i)
    to.values[i] = std::apply([&](const auto&... pack) { return apply<Out>(f, pack.values[i]...); }, from);
  *reinterpret_cast<Pack<Out, kPack>*>(out + at[0]) = to;
}

/// `broadcasts`: a bit for each input whose last dimension does.
template <int kPack, class F, class Out, class... In>
__global__ void map_packs(const F f, const Walk<1 + sizeof...(In)> walk, std::int64_t packs, unsigned broadcasts,
                          Out* out, const In*... in) {
  for (std::int64_t p = first_item(); p < packs; p += item_step())
    map_pack_at<kPack>(walk(p), std::index_sequence_for<In...>(), broadcasts, f, out, in...);
}

/// The operands in packs, and which inputs broadcast along the last dimension.
template <int N>
struct Packed {
  Geometry<N> geometry;
  unsigned broadcasts = 0;
};

/// Nothing where an operand does not lie in packs.
template <int kPack, int N>
std::optional<Packed<N>> packed(const Geometry<N>& geometry) {
  Packed<N> result{geometry};
  const int last = geometry.sizes.rank() - 1;
  if (last < 1 || geometry.sizes[last] % kPack != 0) return std::nullopt;
  for (std::size_t n = 0; n < std::size_t(N); ++n) {
    Shape& strides = result.geometry.strides[n];
    if (n > 0 && strides[last] == 0) {
      result.broadcasts |= 1u << (n - 1);
      continue;
    }
    if (strides[last] != 1) return std::nullopt;
    for (int d = 0; d < last; ++d)
      if (strides[d] % kPack != 0) return std::nullopt;
    strides[last] = kPack;
  }
  result.geometry.sizes[last] /= kPack;
  result.geometry.numel /= kPack;
  return result;
}

template <class F, class Out, class... In>
void enqueue_map(const F& f, const Geometry<1 + sizeof...(In)>& geometry, const KernelContext& context, Out* out,
                 const In*... in) {
  constexpr int kPack = kPackOf<Out, In...>;
  const std::int64_t count = geometry.numel;
  const bool aligned = is_aligned<kPack>(out) && (is_aligned<kPack>(in) && ...);
  if (geometry.dense && aligned)
    launch_grid(map_dense<kPack, F, Out, In...>, blocks_for((count + kPack - 1) / kPack), kThreads, context, f, out,
                count, in...);
  else if (const auto packs = packed<kPack>(geometry); packs && aligned)
    launch_grid(map_packs<kPack, F, Out, In...>, blocks_for(packs->geometry.numel), kThreads, context, f,
                Walk<1 + sizeof...(In)>(packs->geometry), packs->geometry.numel, packs->broadcasts, out, in...);
  else
    launch_grid(map_strided<F, Out, In...>, blocks_for(count), kThreads, context, f, Walk<1 + sizeof...(In)>(geometry),
                count, out, in...);
}
template <class F, class Out, class... In, std::size_t... I>
void enqueue_map(const F& f, const ElementwiseOperands<1 + sizeof...(In)>& operands, const KernelContext& context,
                 std::index_sequence<I...>) {
  enqueue_map(f, operands.geometry, context, reinterpret_cast<Out*>(operands.data[0]),
              reinterpret_cast<const In*>(operands.data[I + 1])...);
}
/// Of elements of these types.
template <class F, class Out, class... In>
void enqueue_map(const ElementwiseKernel<F, 1 + sizeof...(In)>& kernel, const KernelContext& context) {
  enqueue_map<F, Out, In...>(kernel.f, kernel.operands, context, std::index_sequence_for<In...>());
}

}  // namespace lockstep::gpu
