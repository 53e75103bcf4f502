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

// One row on the host: one copy for dense and strided operands, and for the 16-bit types. Flat: a call of a large f in
// the loop would keep it from becoming vector instructions.
template <class F, class... T>
[[gnu::noinline, gnu::flatten]] void multi_output_row(const F& f, std::int64_t count,
                                                      std::pair<T*, std::int64_t>... at) {
  if (((at.second == 1) && ...)) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) f(at.first[i]...);
  } else {
    for (std::int64_t i = 0; i < count; ++i) f(at.first[i * at.second]...);
  }
}

/// A part of one operand's row in its compute type: in place, or for 16-bit floats in a buffer of floats.
template <class T>
class WidePart {
 public:
  using Element = std::remove_const_t<T>;
  using Wide = std::conditional_t<std::is_const_v<T>, const ComputeType<Element>, ComputeType<Element>>;
  static constexpr std::int64_t kBuffer = 256;

  WidePart(T* data, std::int64_t step, std::int64_t count) : data_(data), step_(step), count_(count) {
    if constexpr (kNarrow<Element>) widen(data, step, count, buffer_);
  }
  std::pair<Wide*, std::int64_t> row() noexcept {
    if constexpr (kNarrow<Element>)
      return {buffer_, 1};
    else
      return {data_, step_};
  }
  void store() const noexcept {
    if constexpr (kNarrow<Element> && !std::is_const_v<T>) narrow(buffer_, count_, data_, step_);
  }

 private:
  T* data_;
  std::int64_t step_, count_;
  ComputeType<Element> buffer_[kNarrow<Element> ? kBuffer : 1];
};

template <class F, class... T>
struct MultiOutputKernel {
  static constexpr int kOperands = sizeof...(T);
  static constexpr std::int64_t kGrain = 1 << 13;  // elements that are worth a task
  static constexpr bool kBuffered = (kNarrow<std::remove_const_t<T>> || ...);

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
  void row(const std::array<std::int64_t, std::size_t(kOperands)>& at, std::int64_t count, std::index_sequence<I...>) const {
    const int last = geometry.sizes.rank() - 1;
    if constexpr (!kBuffered) {
      multi_output_row<F, T...>(f, count, std::make_pair(std::get<I>(data) + at[I], geometry.strides[I][last])...);
    } else {
      constexpr std::int64_t kPart = WidePart<float>::kBuffer;
      for (std::int64_t from = 0; from < count; from += kPart) {
        const std::int64_t n = std::min(kPart, count - from);
        run_parts(n, part_at(std::get<I>(data) + at[I], geometry.strides[I][last], from, n)...);
      }
    }
  }

  // By a function, since nvcc loses the dots behind a constructor's arguments.
  template <class Element>
  static WidePart<Element> part_at(Element* data, std::int64_t step, std::int64_t from, std::int64_t count) {
    return {data + from * step, step, count};
  }

  void run_parts(std::int64_t count, WidePart<T>... parts) const {
    multi_output_row<F, typename WidePart<T>::Wide...>(f, count, parts.row()...);
    (parts.store(), ...);
  }
};

}  // namespace lockstep
