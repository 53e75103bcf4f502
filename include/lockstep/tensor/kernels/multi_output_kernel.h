// The kernel of the elementwise pattern with several outputs: f(a[i], b[i], ...), where f takes references and writes
// some of them. For fused cells and fused normalizations: what lies between the inputs and the outputs never reaches
// memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include <lockstep/runtime/kernel.h>
#include <lockstep/tensor/kernels/geometry.h>
#include <lockstep/tensor/kernels/map_kernel.h>

namespace lockstep {

template <class F, class... T>
void multi_output_elements(const F& function, std::int64_t count, T*... at) {
  const F f = function;  // a copy that no operand can alias
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) f(at[i]...);
}
// `count` is a multiple of kVector.
template <class F, class... T>
[[gnu::noinline]] void multi_output_vectors(const F& f, std::int64_t count, T*... at) {
  vectorized([&] { multi_output_elements(f, count, at...); });
}

template <class F, class... T>
void multi_output_parts(const F& f, std::int64_t count, RowPart<T>&&... parts) {
  multi_output_vectors(f, (count + kVector - 1) & -kVector, parts.wide()...);
  (parts.store(), ...);
}

// One row on the host.
template <class F, class... T>
[[gnu::noinline]] void multi_output_row(const F& f, std::int64_t count, std::pair<T*, std::int64_t>... row) {
  const bool in_place = (RowPart<T>::lies_in_place(row.second) && ...);
  for (std::int64_t at = 0; at < count;) {
    const std::int64_t n = RowPart<const float>::length(count - at, in_place);
    multi_output_parts<F, T...>(f, n, RowPart<T>(row.first, row.second, at, n)...);
    at += n;
  }
}

template <class F, class... T>
struct MultiOutputKernel {
  static constexpr int kOperands = sizeof...(T);
  static constexpr std::int64_t kGrain = 1 << 13;  // elements that are worth a task

  F f;
  std::tuple<T*...> data;
  Geometry<kOperands> geometry;

  void operator()(const KernelContext& context) const {
    const std::int64_t inner = geometry.dense ? 1 : geometry.sizes.back();
    host::parallel_for(context, geometry.numel / inner, kGrain / inner + 1,
                       [this](std::int64_t begin, std::int64_t end) { part(begin, end); });
  }

 private:
  void part(std::int64_t begin, std::int64_t end) const {
    using Indices = std::index_sequence_for<T...>;
    if (geometry.dense) {
      std::array<std::int64_t, std::size_t(kOperands)> at;
      at.fill(begin);
      return row(at, end - begin, Indices());
    }
    const int last = geometry.sizes.rank() - 1;
    for (std::int64_t r = begin; r < end; ++r) row(offsets_at(geometry, r, last), geometry.sizes[last], Indices());
  }

  template <std::size_t... I>
  void row(const std::array<std::int64_t, std::size_t(kOperands)>& at, std::int64_t count,
           std::index_sequence<I...>) const {
    const int last = geometry.sizes.rank() - 1;
    multi_output_row<F, T...>(f, count, std::make_pair(std::get<I>(data) + at[I], geometry.strides[I][last])...);
  }
};

}  // namespace lockstep
