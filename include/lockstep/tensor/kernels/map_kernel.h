// The kernel of the elementwise pattern, out[i] = f(in0[i], in1[i], ...), in its host form. That for GPUs: cuda/map.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>

#include <lockstep/runtime/kernel.h>
#include <lockstep/tensor/kernels/geometry.h>
#include <lockstep/tensor/kernels/visit.h>

namespace lockstep {

// One row on the host, the inner loop of every elementwise operation. Not inlined: one copy serves dense and strided
// operands, and the 16-bit types, which pass through buffers of floats.
template <class F, class Out, class... In>
[[gnu::noinline]] void map_row(const F& f, std::int64_t count, Out* to, std::int64_t step,
                               std::pair<const In*, std::int64_t>... from) {
  if (step == 1 && ((from.second == 1) && ...)) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) to[i] = Out(f(from.first[i]...));
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i * step] = Out(f(from.first[i * from.second]...));
  }
}

/// Between 16-bit floats and the floats that they compute in.
LOCKSTEP_API void widen(const Half* from, std::int64_t step, std::int64_t count, float* to) noexcept;
LOCKSTEP_API void widen(const BFloat16* from, std::int64_t step, std::int64_t count, float* to) noexcept;
LOCKSTEP_API void narrow(const float* from, std::int64_t count, Half* to, std::int64_t step) noexcept;
LOCKSTEP_API void narrow(const float* from, std::int64_t count, BFloat16* to, std::int64_t step) noexcept;

template <class T>
inline constexpr bool kNarrow = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

template <class F, class Out, class... In>
struct MapKernel {
  static constexpr int kOperands = 1 + sizeof...(In);
  static constexpr std::int64_t kGrain = 1 << 15;  // elements that are worth a task
  static constexpr std::int64_t kBuffer = 512;     // elements converted at a time

  F f;
  Out* out;
  std::tuple<const In*...> in;
  Geometry<kOperands> geometry;

  void operator()(const KernelContext& context) const { host(context, std::index_sequence_for<In...>()); }

 private:
  template <std::size_t... I>
  void host(const KernelContext& context, std::index_sequence<I...>) const {
    if (geometry.dense) {
      host::parallel_for(context, geometry.numel, kGrain, [this](std::int64_t begin, std::int64_t end) {
        row(end - begin, out + begin, 1, std::make_pair(std::get<I>(in) + begin, std::int64_t(1))...);
      });
      return;
    }
    const std::int64_t inner = geometry.sizes.back();
    const std::int64_t rows = geometry.numel / inner;
    host::parallel_for(context, rows, kGrain / inner + 1, [this, inner](std::int64_t begin, std::int64_t end) {
      const int last = geometry.sizes.rank() - 1;
      for (std::int64_t r = begin; r < end; ++r) {
        const auto at = offsets_at(geometry, r, last);
        row(inner, out + at[0], geometry.strides[0][last],
            std::make_pair(std::get<I>(in) + at[I + 1], geometry.strides[I + 1][last])...);
      }
    });
  }

  void row(std::int64_t count, Out* to, std::int64_t step, std::pair<const In*, std::int64_t>... from) const {
    if constexpr (!kNarrow<Out> && !(kNarrow<In> || ...)) {
      map_row<F, Out, In...>(f, count, to, step, from...);
    } else {
      using Wide = ComputeType<Out>;
      Wide result[kNarrow<Out> ? kBuffer : 1];
      for (std::int64_t at = 0; at < count; at += kBuffer) {
        const std::int64_t part = std::min(kBuffer, count - at);
        const auto run = [&](Wide* target, std::int64_t target_step) {
          map_row<F, Wide, ComputeType<In>...>(f, part, target, target_step, Input<In>(from, at, part).row()...);
        };
        if constexpr (kNarrow<Out>) {
          run(result, 1);
          lockstep::narrow(result, part, to + at * step, step);
        } else {
          run(to + at * step, step);
        }
      }
    }
  }

  // A part of an input row in its compute type.
  template <class T>
  struct Input {
    Input(std::pair<const T*, std::int64_t> from, std::int64_t at, std::int64_t count)
        : source{from.first + at * from.second, from.second} {
      if constexpr (kNarrow<T>) widen(source.first, source.second, count, buffer);
    }
    std::pair<const ComputeType<T>*, std::int64_t> row() const {
      if constexpr (kNarrow<T>)
        return {buffer, 1};
      else
        return source;
    }
    std::pair<const T*, std::int64_t> source;
    ComputeType<T> buffer[kNarrow<T> ? kBuffer : 1];
  };
};

}  // namespace lockstep
