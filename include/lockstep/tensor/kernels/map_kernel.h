// The kernel of the elementwise pattern, out[i] = f(in0[i], in1[i], ...), in its host form. That for GPUs: cuda/map.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>

#include <lockstep/core/float16_rows.h>
#include <lockstep/core/vectorized.h>
#include <lockstep/runtime/kernel.h>
#include <lockstep/tensor/kernels/geometry.h>
#include <lockstep/tensor/kernels/visit.h>

namespace lockstep {

/// Results of elements that share a loop with others do not depend on their places, because loops over elements have
/// whole vectors alone: so many elements, or a multiple. What remains is filled up in a buffer.
inline constexpr std::int64_t kVector = 16;

template <class T>
inline constexpr bool kNarrow = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

// Elements between a row and a buffer. What fills up the buffer's last vector are copies of the first.
template <class T>
[[gnu::noinline]] void gather_row(const T* from, std::int64_t step, std::int64_t count, T* to) noexcept {
  const std::int64_t whole = (count + kVector - 1) & -kVector;
  if (step == 0 || whole != count)
    std::fill_n(to + (step == 0 ? 0 : whole - kVector), step == 0 ? whole : kVector, *from);
  if (step == 1)
    std::copy_n(from, count, to);
  else if (step != 0)
    for (std::int64_t i = 0; i < count; ++i) to[i] = from[i * step];
}
template <class T>
[[gnu::noinline]] void scatter_row(const T* from, std::int64_t count, T* to, std::int64_t step) noexcept {
  if (step == 1)
    std::copy_n(from, count, to);
  else
    for (std::int64_t i = 0; i < count; ++i) to[i * step] = from[i];
}

/// A part of a row of an operand in its compute type, as a loop over whole vectors takes it: in place, or in a buffer.
template <class T>
class RowPart {
 public:
  using Element = std::remove_const_t<T>;
  using Wide = ComputeType<Element>;
  static constexpr std::int64_t kBuffer = 256;  ///< Elements that a buffer holds.

  /// How many elements of `count`, the rest of a row, the next part has.
  static std::int64_t length(std::int64_t count, bool all_in_place) {
    const std::int64_t whole = count & -kVector;
    return whole == 0 ? count : all_in_place ? whole : std::min(whole, kBuffer);
  }
  static bool lies_in_place(std::int64_t step) { return !kNarrow<Element> && step == 1; }

  /// Elements [at, at + count). `reads`: whether the loop reads them.
  RowPart(T* data, std::int64_t step, std::int64_t at, std::int64_t count, bool reads = true)
      : data_(data + at * step), step_(step), count_(count), in_place_(lies_in_place(step) && count % kVector == 0) {
    if (in_place_ || !reads) return;
    if constexpr (kNarrow<Element>) {
      widen(data_, step, count, buffer_);
      for (; count % kVector != 0; ++count) buffer_[count] = buffer_[0];
    } else {
      gather_row<Element>(data_, step, count, buffer_);
    }
  }

  /// Its elements, and such as fill up the last vector.
  auto* wide() {
    if constexpr (kNarrow<Element>)
      return buffer_;
    else
      return in_place_ ? data_ : static_cast<T*>(buffer_);
  }
  /// Takes what the loop has written to where it belongs.
  void store() const {
    if constexpr (std::is_const_v<T>)
      return;
    else if constexpr (kNarrow<Element>)
      narrow(buffer_, count_, data_, step_);
    else if (!in_place_)
      scatter_row(buffer_, count_, data_, step_);
  }

 private:
  T* data_;
  std::int64_t step_, count_;
  bool in_place_;
  alignas(64) Wide buffer_[kBuffer];
};

template <class F, class Out, class... In>
void map_elements(const F& function, std::int64_t count, Out* to, const In*... from) {
  const F f = function;  // a copy that no operand can alias
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) to[i] = Out(f(from[i]...));
}
// `count` is a multiple of kVector, or f is arithmetic alone. Compiled for several instruction sets, and therefore for
// compute types: all dtypes with one compute type share it.
template <class F, class Out, class... In>
[[gnu::noinline]] void map_vectors(const F& f, std::int64_t count, Out* to, const In*... from) {
  vectorized([&] { map_elements(f, count, to, from...); });
}

/// Whether F says that it is arithmetic alone, without a function of core/elementary.h: then an element by itself has
/// the bits that a vector gives, and the end of a row needs no buffer.
template <class F>
inline constexpr bool kIsArithmetic = requires {
  requires F::kArithmetic;
};

// One row on the host, the inner loop of every elementwise operation.
template <class F, class Out, class... In>
[[gnu::noinline]] void map_row(const F& f, std::int64_t count, Out* to, std::int64_t step,
                               std::pair<const In*, std::int64_t>... from) {
  const bool in_place = RowPart<Out>::lies_in_place(step) && (RowPart<const In>::lies_in_place(from.second) && ...);
  if constexpr (kIsArithmetic<F> && !kNarrow<Out> && !(kNarrow<In> || ...))
    if (in_place) return map_vectors(f, count, to, from.first...);
  for (std::int64_t at = 0; at < count;) {
    const std::int64_t n = RowPart<Out>::length(count - at, in_place);
    RowPart<Out> result(to, step, at, n, false);
    map_vectors<F, ComputeType<Out>, ComputeType<In>...>(f, (n + kVector - 1) & -kVector, result.wide(),
                                                         RowPart<const In>(from.first, from.second, at, n).wide()...);
    result.store();
    at += n;
  }
}

template <class F, class Out, class... In>
struct MapKernel {
  static constexpr int kOperands = 1 + sizeof...(In);
  static constexpr std::int64_t kGrain = 1 << 15;  // elements that are worth a task

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
        map_row<F, Out, In...>(f, end - begin, out + begin, 1,
                               std::make_pair(std::get<I>(in) + begin, std::int64_t(1))...);
      });
      return;
    }
    const std::int64_t inner = geometry.sizes.back();
    const std::int64_t rows = geometry.numel / inner;
    host::parallel_for(context, rows, kGrain / inner + 1, [this, inner](std::int64_t begin, std::int64_t end) {
      const int last = geometry.sizes.rank() - 1;
      for (std::int64_t r = begin; r < end; ++r) {
        const auto at = offsets_at(geometry, r, last);
        map_row<F, Out, In...>(f, inner, out + at[0], geometry.strides[0][last],
                               std::make_pair(std::get<I>(in) + at[I + 1], geometry.strides[I + 1][last])...);
      }
    });
  }
};

}  // namespace lockstep
