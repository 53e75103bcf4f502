// Elementwise kernels, out[i] = f(in0[i], in1[i], ...), on a GPU. If all operands are dense, a thread works on packs of
// neighbouring elements of up to 16 bytes. If the last dimension of each operand is dense or broadcast, it also works
// on packs, and a Walk (cuda/walk.h) computes each pack's offsets. For other layouts it works on single elements, whose
// offsets a Walk computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <lockstep/kernels/cuda/grid.h>
#include <lockstep/kernels/cuda/pack.h>
#include <lockstep/kernels/cuda/walk.h>
#include <lockstep/kernels/elementwise_kernel.h>

namespace lockstep::gpu {

/// Applies f to one element of each operand: converts the inputs from their stored type, and the result to Out.
template <class Out, class F, class... In>
__device__ Out apply(const F& f, const In&... in) {
  return Out(ComputeType<Out>(f(ComputeType<In>(in)...)));
}

/// Applies f to packs. The packs are passed by value, so that all are loaded before the result is stored.
template <int kPack, class Out, class F, class... In>
__device__ Pack<Out, kPack> apply_to_packs(const F& f, const Pack<In, kPack>... in) {
  Pack<Out, kPack> out;
  for (int i = 0; i < kPack; ++i) out.values[i] = apply<Out>(f, in.values[i]...);
  return out;
}

template <int kPack, class F, class Out, class... In>
__global__ void map_dense(const F f, Out* out, std::int64_t count, const In*... in) {
  const std::int64_t packs = count / kPack;
  for (std::int64_t p = first_item(); p < packs; p += item_step())
    store_pack(out + p * kPack, apply_to_packs<kPack, Out>(f, load_pack<kPack>(in + p * kPack)...));
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

// The pack of elements at `data`. If the last dimension broadcasts: a pack filled with the element at `data`.
template <int kPack, class T>
__device__ Pack<T, kPack> pack_at(const T* data, bool broadcasts) {
  if (!broadcasts) return load_pack<kPack>(data);
  Pack<T, kPack> pack;
  const T value = *data;
  for (T& each : pack.values) each = value;
  return pack;
}

template <int kPack, class F, class Out, class... In, std::size_t... I>
__device__ void map_pack_at(const std::array<std::int64_t, 1 + sizeof...(In)>& at, std::index_sequence<I...>,
                            unsigned broadcasts, const F& f, Out* out, const In*... in) {
  store_pack(out + at[0], apply_to_packs<kPack, Out>(f, pack_at<kPack>(in + at[I + 1], broadcasts >> I & 1)...));
}

/// `broadcasts`: bit i is set if the last dimension of input i broadcasts.
template <int kPack, class F, class Out, class... In>
__global__ void map_packs(const F f, const Walk<1 + sizeof...(In)> walk, std::int64_t packs, unsigned broadcasts,
                          Out* out, const In*... in) {
  for (std::int64_t p = first_item(); p < packs; p += item_step())
    map_pack_at<kPack>(walk(p), std::index_sequence_for<In...>(), broadcasts, f, out, in...);
}

/// The Walk over N operands for map_packs or map_strided.
template <int N>
struct MapWalk {
  bool in_packs;        ///< True: items are packs; false: items are elements.
  unsigned broadcasts;  ///< As for map_packs.
  std::int64_t items;
  Walk<N> walk;
};

/// A walk over packs of `pack` elements if every operand's layout allows it, else over single elements.
template <int N>
MapWalk<N> map_walk(const Geometry<N>& geometry, int pack, bool aligned) {
  const auto of_elements = [&] { return MapWalk<N>{false, 0, geometry.numel, Walk<N>(geometry)}; };
  const int last = geometry.sizes.rank() - 1;
  if (!aligned || last < 1 || geometry.sizes[last] % pack != 0) return of_elements();
  Geometry<N> packs = geometry;
  unsigned broadcasts = 0;
  for (std::size_t n = 0; n < std::size_t(N); ++n) {
    Shape& strides = packs.strides[n];
    if (n > 0 && strides[last] == 0) {
      broadcasts |= 1u << (n - 1);
      continue;
    }
    if (strides[last] != 1) return of_elements();
    for (int d = 0; d < last; ++d)
      if (strides[d] % pack != 0) return of_elements();
    strides[last] = pack;
  }
  packs.sizes[last] /= pack;
  packs.numel /= pack;
  return {true, broadcasts, packs.numel, Walk<N>(packs)};
}

/// The kernels of a function for elements of some types: map_dense, map_packs and map_strided.
struct MapGrids {
  KernelHandle dense, packs, strided;
  int pack;  ///< Elements of a pack.
};

/// Enqueues the fastest of the three kernels that the layouts allow. Compiled once for all functions.
template <int N>
[[gnu::noinline]] void enqueue_map(const MapGrids& grids, const void* f, const ElementwiseOperand* of,
                                   const ElementwiseOperands<N>& operands, const KernelContext& context) {
  const auto& [data, geometry] = operands;
  const auto place = [](const auto& argument) { return const_cast<void*>(static_cast<const void*>(&argument)); };
  bool aligned = true;
  for (std::size_t n = 0; n < std::size_t(N); ++n)
    aligned =
        aligned && reinterpret_cast<std::uintptr_t>(data[n]) % std::uintptr_t(bytes_of(of[n].stored) * grids.pack) == 0;
  if (geometry.dense && aligned) {
    void* arguments[2 + N] = {const_cast<void*>(f), place(data[0]), place(geometry.numel)};
    for (std::size_t n = 1; n < std::size_t(N); ++n) arguments[2 + n] = place(data[n]);
    return launch_grid(grids.dense, blocks_for((geometry.numel + grids.pack - 1) / grids.pack), kThreads, context,
                       arguments);
  }
  const MapWalk<N> at = map_walk(geometry, grids.pack, aligned);
  void* arguments[4 + N] = {const_cast<void*>(f), place(at.walk), place(at.items)};
  void** next = arguments + 3;
  if (at.in_packs) *next++ = place(at.broadcasts);
  for (std::size_t n = 0; n < std::size_t(N); ++n) *next++ = place(data[n]);
  launch_grid(at.in_packs ? grids.packs : grids.strided, blocks_for(at.items), kThreads, context, arguments);
}
/// Enqueues the kernel for operands of element types Out and In.
template <class F, class Out, class... In>
void enqueue_map(const ElementwiseKernel<F, 1 + sizeof...(In)>& kernel, const KernelContext& context) {
  constexpr int kPack = kPackOf<Out, In...>;
  const MapGrids grids = {KernelHandle(map_dense<kPack, F, Out, In...>), KernelHandle(map_packs<kPack, F, Out, In...>),
                          KernelHandle(map_strided<F, Out, In...>), kPack};
  enqueue_map(grids, &kernel.f, kernel.forms->host.operands, kernel.operands, context);
}

}  // namespace lockstep::gpu
