// The reduction pattern: out[o] = finish(combine of load(in[o, r]) over r), r over the reduced dimensions.
// The order of combination depends on shape and layout alone, never on the number of threads.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include <lockstep/core/by_halves.h>
#include <lockstep/tensor/kernels/visit.h>
#include "runtime/host/parallel.h"
#include "tensor/kernels/launch.h"

namespace lockstep {

/// R is a copyable object with
///   Accumulator           a type,
///   identity()            -> Accumulator,
///   load(x)               -> Accumulator, from one element in its compute type,
///   combine(a, b)         -> Accumulator, associative up to rounding,
///   finish(a, count)      -> what is stored, from `count` combined elements.
template <class R, class Out, class In>
struct ReduceKernel {
  using Accumulator = typename R::Accumulator;
  static constexpr std::int64_t kGrain = 1 << 15;
  static constexpr std::int64_t kPiece = 1 << 16;  // elements of a long row that are combined by themselves

  R reducer;
  Out* out;
  const In* in;
  Geometry<2> kept;     // of out and in
  Geometry<1> reduced;  // of in
  // Set when in is [reduced, kept] with both dense: then whole rows are combined.
  bool columns = false;

  void operator()(const KernelContext& context) const {
    if (columns)
      by_columns(context);
    else if (kept.numel == 1 && reduced.numel > kPiece)
      one_long(context);
    else
      over(context, kept.numel, kGrain / std::max<std::int64_t>(reduced.numel, 1) + 1,
           [this](std::int64_t begin, std::int64_t end) {
             for (std::int64_t o = begin; o < end; ++o) {
               const auto [to, from] = offsets_at(kept, o);
               store(out[to], span(in + from, 0, reduced.numel));
             }
           });
  }

 private:
  // Whole numbers, and rows of steps, gain little by vector instructions.
  template <class Body>
  void over(const KernelContext& context, std::int64_t count, std::int64_t grain, const Body& body) const {
    if constexpr (std::is_floating_point_v<ComputeType<In>> && !std::is_same_v<In, Half>)
      if (columns || reduced.sizes.empty() || reduced.strides[0].back() == 1)
        return host::vectorized_for(context, count, grain, body);
    host::parallel_for(context, count, grain, body);
  }

  void store(Out& to, const Accumulator& value) const { to = Out(reducer.finish(value, reduced.numel)); }

  void merge(Accumulator& a, const Accumulator& b) const { a = reducer.combine(a, b); }

  // Combines the reduced elements [begin, end) of one output: no more than kChain rows, or steps in a row, at a time.
  Accumulator span(const In* from, std::int64_t begin, std::int64_t end) const {
    const int rank = reduced.sizes.rank();
    const std::int64_t inner = rank ? reduced.sizes[rank - 1] : 1;
    const std::int64_t most = kChain * (inner > kChain * kLanes ? kLanes : inner);
    if (end - begin <= most) return part(from, begin, end);
    return by_halves(
        begin, end, most, [&](std::int64_t first, std::int64_t last) { return part(from, first, last); },
        [this](Accumulator& a, const Accumulator& b) { merge(a, b); });
  }

  // The same one row after another.
  Accumulator part(const In* from, std::int64_t begin, std::int64_t end) const {
    const int rank = reduced.sizes.rank();
    const std::int64_t inner = rank ? reduced.sizes[rank - 1] : 1;
    const std::int64_t step = rank ? reduced.strides[0][rank - 1] : 1;
    Accumulator total = reducer.identity();
    for (std::int64_t at = begin; at < end;) {
      const std::int64_t first = at % inner, offset = offsets_at(reduced, at / inner, rank - 1)[0];
      const std::int64_t count = std::min(inner - first, end - at);
      total = reducer.combine(total, row(from + offset + first * step, count, step));
      at += count;
    }
    return total;
  }

  Accumulator row(const In* from, std::int64_t count, std::int64_t step) const {
    const auto combine = [this](const Accumulator& a, const Accumulator& b) { return reducer.combine(a, b); };
    const auto all = [&](const auto& at) {
      return by_lanes(
          0, count, reducer.identity(),
          [&](const Accumulator& total, std::int64_t i) { return reducer.combine(total, load(at(i))); }, combine);
    };
    return step == 1 ? all([&](std::int64_t i) { return from[i]; })
                     : all([&](std::int64_t i) { return from[i * step]; });
  }

  Accumulator load(In value) const { return reducer.load(ComputeType<In>(value)); }

  void one_long(const KernelContext& context) const {
    const std::int64_t pieces = (reduced.numel + kPiece - 1) / kPiece;
    std::vector<Accumulator> partial(static_cast<std::size_t>(pieces));
    over(context, pieces, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t p = begin; p < end; ++p)
        partial[std::size_t(p)] = span(in, p * kPiece, std::min((p + 1) * kPiece, reduced.numel));
    });
    store(out[0], by_halves(
                      0, pieces, 1, [&](std::int64_t p, std::int64_t) { return partial[std::size_t(p)]; },
                      [this](Accumulator& a, const Accumulator& b) { merge(a, b); }));
  }

  static constexpr std::int64_t kBeside = 256;  // columns whose accumulators stay in the first-level cache
  using Totals = std::array<Accumulator, kBeside>;

  // Long columns are cut into pieces of rows, so that few columns keep all cores busy too.
  void by_columns(const KernelContext& context) const {
    const std::int64_t rows = reduced.numel, blocks = (kept.numel + kBeside - 1) / kBeside;
    const std::int64_t rows_at_once = 4 * kGrain / std::min(kBeside, kept.numel);
    const std::int64_t pieces = std::max<std::int64_t>(1, rows / rows_at_once);
    const auto columns_of = [&](std::int64_t block) { return std::min(kBeside, kept.numel - block * kBeside); };
    const auto merge_all = [&](Totals& first, const Totals& second, std::int64_t count) {
      for (std::int64_t c = 0; c < count; ++c) merge(first[std::size_t(c)], second[std::size_t(c)]);
    };
    std::vector<Totals> parts(pieces > 1 ? static_cast<std::size_t>(blocks * pieces) : 0);
    const auto finish = [&](std::int64_t block, const Totals& totals) {
      for (std::int64_t c = 0; c < columns_of(block); ++c) store(out[block * kBeside + c], totals[std::size_t(c)]);
    };
    const std::int64_t grain = kGrain / (std::max<std::int64_t>(rows / pieces, 1) * std::min(kBeside, kept.numel)) + 1;
    over(context, blocks * pieces, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t at = begin; at < end; ++at) {
        const std::int64_t block = at / pieces, piece = at % pieces, count = columns_of(block);
        const Totals totals = by_halves(
            piece * rows / pieces, (piece + 1) * rows / pieces, 2 * kChain,  // merges cost more here
            [&](std::int64_t first, std::int64_t last) { return totals_of(block * kBeside, count, first, last); },
            [&](Totals& first, const Totals& second) { merge_all(first, second, count); });
        if (pieces == 1)
          finish(block, totals);
        else
          parts[std::size_t(at)] = totals;
      }
    });
    for (std::int64_t block = 0; pieces > 1 && block < blocks; ++block)
      finish(block, by_halves(
                        0, pieces, 1,
                        [&](std::int64_t piece, std::int64_t) { return parts[std::size_t(block * pieces + piece)]; },
                        [&](Totals& first, const Totals& second) { merge_all(first, second, columns_of(block)); }));
  }

  // Combines the rows [begin, end) of `count` columns.
  Totals totals_of(std::int64_t from, std::int64_t count, std::int64_t begin, std::int64_t end) const {
    alignas(64) Accumulator chains[kBeside];  // here, where no element can lie: then the loop is vectors
    std::fill_n(chains, count, reducer.identity());
    for (std::int64_t r = begin; r < end; ++r) {
      const In* values = in + r * reduced.strides[0][0] + from;
      for (std::int64_t c = 0; c < count; ++c) merge(chains[c], load(values[c]));
    }
    Totals totals;
    std::copy_n(chains, count, totals.begin());
    return totals;
  }
};

/// Which dimensions of a tensor are reduced.
using DimMask = std::array<bool, Shape::kMaxRank>;

/// x's sizes with each reduced dimension of size 1, or without it.
inline Shape reduced_sizes(const Shape& sizes, const DimMask& mask, bool keep_dims) {
  Shape result;
  for (int i = 0; i < sizes.rank(); ++i)
    if (!mask[std::size_t(i)] || keep_dims) result.push_back(mask[std::size_t(i)] ? 1 : sizes[i]);
  return result;
}

/// Reduces x over the masked dimensions into `out`, whose elements are those of the kept ones, dense.
template <class Out, class In, class R>
void reduce(const char* name, const R& reducer, const Tensor& out, const Tensor& x, const DimMask& mask) {
  const TensorImpl& from = *x.impl();
  ReduceKernel<R, Out, In> kernel{
      reducer, reinterpret_cast<Out*>(out.impl()->data()), reinterpret_cast<const In*>(from.data()), {}, {}, false};
  for (int i = 0; i < from.sizes.rank(); ++i) {
    if (mask[std::size_t(i)]) {
      kernel.reduced.sizes.push_back(from.sizes[i]);
      kernel.reduced.strides[0].push_back(from.strides[i]);
    } else {
      kernel.kept.sizes.push_back(from.sizes[i]);
      kernel.kept.strides[1].push_back(from.strides[i]);
    }
  }
  kernel.kept.strides[0] = contiguous_strides(kernel.kept.sizes);
  kernel.kept.numel = kernel.kept.sizes.elements();
  kernel.reduced.numel = kernel.reduced.sizes.elements();
  if (kernel.kept.numel == 0) return;
  collapse(kernel.kept);
  collapse(kernel.reduced);
  const Geometry<2>& kept = kernel.kept;
  kernel.columns = kept.sizes.rank() == 1 && kept.strides[0][0] == 1 && kept.strides[1][0] == 1 &&
                   kernel.reduced.sizes.rank() == 1 && kept.numel > 1;
  launch(name, double(from.numel), out, std::array<const Tensor*, 1>{&x}, kernel);
}

}  // namespace lockstep
