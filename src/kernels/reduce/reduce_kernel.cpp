#include "kernels/reduce/reduce_kernel.h"

#include <algorithm>
#include <vector>

#include "cpu/parallel.h"
#include "kernels/reduce/reduce.h"
#include "kernels/rows/row_buffer.h"

namespace lockstep::host {
namespace {

constexpr std::int64_t kGrain = 1 << 15;        // up to this many elements are not divided between tasks
constexpr std::int64_t kPiece = 1 << 16;        // elements of a long row that one task combines
constexpr std::int64_t kBeside = 256;           // outputs whose accumulators stay in the first-level cache
constexpr std::int64_t kRow = kChain * kLanes;  // elements of kLanes chains side by side
constexpr std::int64_t kAtOnce = 16;            // rows of kRow elements that a call combines

// A stack for the totals that pairwise_reduce() has not merged yet.
template <std::int64_t kAccumulators>
class Open {
 public:
  explicit Open(std::size_t bytes_each) : bytes_each_(bytes_each) {}
  std::byte* push() { return memory_ + bytes_each_ * std::size_t(depth_++); }
  void pop() { --depth_; }

 private:
  static constexpr int kDepth = 50;  // pairwise_reduce() keeps at most 48 totals
  std::size_t bytes_each_;
  int depth_ = 0;
  alignas(64) std::byte memory_[kDepth * kAccumulators * kAccumulatorBytes];
};

class Reducer {
 public:
  Reducer(const ReductionPlan& plan, const ReduceLoops& loops, const void* reducer)
      : of_(plan),
        loops_(loops),
        reducer_(reducer),
        moves_(moves_of(loops.in)),
        inner_(of_.reduced.sizes.empty() ? 1 : of_.reduced.sizes.back()),
        step_(of_.reduced.sizes.empty() ? 1 : of_.reduced.strides[0].back()) {}

  void run(const KernelContext& context) const {
    if (of_.columns)
      by_columns(context);
    else if (of_.kept.numel == 1 && of_.reduced.numel > kPiece)
      one_long(context);
    else
      by_rows(context);
  }

 private:
  const std::byte* element(std::int64_t offset) const {  // null if there are none
    return of_.in ? of_.in + offset * moves_.stored_bytes : nullptr;
  }

  void load(std::int64_t offset, std::int64_t step, std::int64_t count, std::byte* buffer) const {
    moves_.load(element(offset), step, count, buffer, count);
  }

  // Finishes and stores `count` neighbouring outputs.
  void store(const std::byte* totals, std::int64_t count, std::int64_t to) const {
    const ElementMoves& moves = moves_of(loops_.out);
    std::byte* const out = of_.out + to * moves.stored_bytes;
    if (moves.are_copies()) return loops_.finish(reducer_, totals, of_.reduced.numel, out, count);
    alignas(64) std::byte results[kBeside * sizeof(double)];
    loops_.finish(reducer_, totals, of_.reduced.numel, results, count);
    moves.store(results, count, out, 1);
  }

  // totals[i] = the reduction of row i, of `length` elements, at most kRow; the rows are `stride` elements apart.
  void rows(std::int64_t from, std::int64_t stride, std::int64_t length, std::byte* totals, std::int64_t count) const {
    if (step_ == 1 && moves_.are_copies()) return loops_.rows(reducer_, element(from), stride, length, totals, count);
    alignas(64) std::byte buffer[kRow * sizeof(double)];
    const std::int64_t at_once = length == 0 ? count : kRow / length;
    for (std::int64_t begin = 0; begin < count; begin += at_once) {
      const std::int64_t several = std::min(at_once, count - begin);
      if (step_ == 1 && stride == length && length > 0)  // the rows are contiguous: loads all at once
        load(from + begin * stride, 1, several * length, buffer);
      else
        for (std::int64_t i = 0; length > 0 && i < several; ++i)
          load(from + (begin + i) * stride, step_, length, buffer + i * length * moves_.computed_bytes);
      loops_.rows(reducer_, buffer, length, length, totals + std::size_t(begin) * loops_.accumulator_bytes, several);
    }
  }

  // total = the reduction, row by row, of the elements [begin, end) among those that one output reduces.
  void part(std::int64_t from, std::int64_t begin, std::int64_t end, std::byte* total) const {
    const int outer = std::max(of_.reduced.sizes.rank() - 1, 0);
    alignas(kAccumulatorBytes) std::byte next[kAccumulatorBytes];
    loops_.start(reducer_, total, 1);
    for (std::int64_t at = begin; at < end;) {
      const std::int64_t first = at % inner_, offset = offsets_at(of_.reduced, at / inner_, outer)[0];
      const std::int64_t count = std::min(inner_ - first, end - at);
      rows(from + offset + first * step_, 0, count, next, 1);
      loops_.merge(reducer_, total, next, 1);
      at += count;
    }
  }

  // Like part(), but reduces blocks of elements and merges their totals pairwise. A block has kChain rows, or, in rows
  // of more than kRow elements, kChain times kLanes elements.
  void span(std::int64_t from, std::int64_t begin, std::int64_t end, std::byte* total) const {
    const std::int64_t most = kChain * (inner_ > kRow ? kLanes : inner_);
    if (end - begin <= most) return part(from, begin, end, total);
    Open<1> open(loops_.accumulator_bytes);
    // If all elements are one long row, one call reduces several full blocks.
    const bool is_one_row = inner_ == of_.reduced.numel && inner_ > kRow;
    alignas(64) std::byte made[kAtOnce * kAccumulatorBytes];
    const std::byte* const all = pairwise_reduce(
        begin, end, most,
        [&](std::int64_t first, std::int64_t last) {
          std::byte* const next = open.push();
          if (!is_one_row || last - first < most) {
            part(from, first, last, next);
            return next;
          }
          const std::int64_t place = (first - begin) / most % kAtOnce;
          if (place == 0) rows(from + first * step_, most * step_, most, made, std::min(kAtOnce, (end - first) / most));
          std::copy_n(made + std::size_t(place) * loops_.accumulator_bytes, loops_.accumulator_bytes, next);
          return next;
        },
        [&](std::byte* a, const std::byte* b) {
          loops_.merge(reducer_, a, b, 1);
          open.pop();
        });
    std::copy_n(all, loops_.accumulator_bytes, total);
  }

  void by_rows(const KernelContext& context) const {
    const std::int64_t length = of_.reduced.numel;
    const int last = of_.kept.sizes.rank() - 1;
    const std::int64_t beside = last < 0 ? 1 : of_.kept.sizes[last];  // neighbouring outputs; inputs are in_step apart
    const std::int64_t in_step = last < 0 ? 0 : of_.kept.strides[1][last];
    const bool at_once = of_.reduced.sizes.rank() <= 1 && length <= kRow;
    parallel_for(context, of_.kept.numel, kGrain / std::max<std::int64_t>(length, 1) + 1,
                 [&](std::int64_t begin, std::int64_t end) {
                   alignas(64) std::byte totals[kBeside * kAccumulatorBytes];
                   for (std::int64_t o = begin; o < end;) {
                     const std::int64_t count = std::min({beside - o % beside, end - o, kBeside});
                     const auto [to, from] = offsets_at(of_.kept, o);
                     if (at_once)
                       rows(from, in_step, length, totals, count);
                     else
                       for (std::int64_t i = 0; i < count; ++i)
                         span(from + i * in_step, 0, length, totals + std::size_t(i) * loops_.accumulator_bytes);
                     store(totals, count, to);
                     o += count;
                   }
                 });
  }

  void one_long(const KernelContext& context) const {
    const std::int64_t pieces = (of_.reduced.numel + kPiece - 1) / kPiece;
    const std::size_t each = loops_.accumulator_bytes;
    std::vector<std::byte> partial(std::size_t(pieces) * each);
    parallel_for(context, pieces, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t p = begin; p < end; ++p)
        span(0, p * kPiece, std::min((p + 1) * kPiece, of_.reduced.numel), partial.data() + std::size_t(p) * each);
    });
    // Merges in place: pairwise_reduce() merges a later piece into an earlier one.
    const std::int64_t first = pairwise_reduce(
        0, pieces, 1, [](std::int64_t p, std::int64_t) { return p; },
        [&](std::int64_t a, std::int64_t b) {
          loops_.merge(reducer_, partial.data() + std::size_t(a) * each, partial.data() + std::size_t(b) * each, 1);
        });
    store(partial.data() + std::size_t(first) * each, 1, 0);
  }

  // Divides long columns into pieces of rows, so that even few columns keep all cores busy.
  void by_columns(const KernelContext& context) const {
    const std::int64_t rows = of_.reduced.numel, columns = of_.kept.numel;
    const std::int64_t blocks = (columns + kBeside - 1) / kBeside;
    const std::int64_t rows_at_once = 4 * kGrain / std::min(kBeside, columns);
    const std::int64_t pieces = std::max<std::int64_t>(1, rows / rows_at_once);
    const auto columns_of = [&](std::int64_t block) { return std::min(kBeside, columns - block * kBeside); };
    const std::size_t each = std::size_t(std::min(kBeside, columns)) * loops_.accumulator_bytes;
    std::vector<std::byte> parts(pieces > 1 ? std::size_t(blocks * pieces) * each : 0);
    const std::int64_t grain = kGrain / (std::max<std::int64_t>(rows / pieces, 1) * std::min(kBeside, columns)) + 1;
    parallel_for(context, blocks * pieces, grain, [&](std::int64_t begin, std::int64_t end) {
      Open<kBeside> open(each);
      for (std::int64_t at = begin; at < end; ++at) {
        const std::int64_t block = at / pieces, piece = at % pieces, count = columns_of(block);
        std::byte* const totals = pairwise_reduce(
            piece * rows / pieces, (piece + 1) * rows / pieces, 2 * kChain,  // long blocks, as merging costs more here
            [&](std::int64_t first, std::int64_t last) {
              std::byte* const next = open.push();
              take_rows(block * kBeside, count, first, last, next);
              return next;
            },
            [&](std::byte* a, const std::byte* b) {
              loops_.merge(reducer_, a, b, count);
              open.pop();
            });
        if (pieces == 1)
          store(totals, count, block * kBeside);
        else
          std::copy_n(totals, std::size_t(count) * loops_.accumulator_bytes, parts.data() + std::size_t(at) * each);
        open.pop();
      }
    });
    for (std::int64_t block = 0; pieces > 1 && block < blocks; ++block) {
      const auto part = [&](std::int64_t piece) { return parts.data() + std::size_t(block * pieces + piece) * each; };
      const std::int64_t first = pairwise_reduce(
          0, pieces, 1, [](std::int64_t piece, std::int64_t) { return piece; },
          [&](std::int64_t a, std::int64_t b) { loops_.merge(reducer_, part(a), part(b), columns_of(block)); });
      store(part(first), columns_of(block), block * kBeside);
    }
  }

  // Combines the rows [begin, end) of `count` columns.
  void take_rows(std::int64_t from, std::int64_t count, std::int64_t begin, std::int64_t end, std::byte* totals) const {
    const std::int64_t stride = of_.reduced.strides[0][0];
    loops_.start(reducer_, totals, count);
    if (moves_.are_copies())
      return loops_.columns(reducer_, element(begin * stride + from), stride, end - begin, totals, count);
    alignas(64) std::byte buffer[kRow * sizeof(float)];
    const std::int64_t at_once = kRow / count;
    for (std::int64_t r = begin; r < end; r += at_once) {
      const std::int64_t several = std::min(at_once, end - r);
      for (std::int64_t i = 0; i < several; ++i)
        load((r + i) * stride + from, 1, count, buffer + i * count * moves_.computed_bytes);
      loops_.columns(reducer_, buffer, count, several, totals, count);
    }
  }

  const ReductionPlan& of_;
  const ReduceLoops& loops_;
  const void* const reducer_;
  const ElementMoves& moves_;
  const std::int64_t inner_, step_;  // size and stride of the last reduced dimension
};

}  // namespace

void reduce(const KernelContext& context, const ReductionPlan& plan, const ReduceLoops& loops, const void* reducer) {
  Reducer(plan, loops, reducer).run(context);
}

}  // namespace lockstep::host

namespace lockstep {

ReductionPlan plan_reduction(const Tensor& out, const Tensor& x, const DimMask& mask) {
  const TensorImpl& from = *x.impl();
  ReductionPlan r{out.impl()->data(), from.data(), {}, {}};
  for (int i = 0; i < from.sizes.rank(); ++i) {
    if (mask[std::size_t(i)]) {
      r.reduced.sizes.push_back(from.sizes[i]);
      r.reduced.strides[0].push_back(from.strides[i]);
    } else {
      r.kept.sizes.push_back(from.sizes[i]);
      r.kept.strides[1].push_back(from.strides[i]);
    }
  }
  r.kept.strides[0] = contiguous_strides(r.kept.sizes);
  r.kept.numel = r.kept.sizes.elements();
  r.reduced.numel = r.reduced.sizes.elements();
  if (r.kept.numel == 0) return r;
  collapse(r.kept);
  collapse(r.reduced);
  r.columns = r.kept.sizes.rank() == 1 && r.kept.strides[0][0] == 1 && r.kept.strides[1][0] == 1 &&
              r.reduced.sizes.rank() == 1 && r.kept.numel > 1;
  return r;
}

}  // namespace lockstep
