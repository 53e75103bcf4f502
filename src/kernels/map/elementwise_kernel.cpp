#include <lockstep/kernels/elementwise_kernel.h>

#include <algorithm>

#include "kernels/rows/row_buffer.h"

namespace lockstep::host {
namespace {

constexpr std::int64_t kBuffer = 256;  // elements of a buffer

// Runs the loop, with buffers for operands that it cannot read or write in place, as whole vectors of dense elements.
[[gnu::noinline]] void buffered_row(const ElementwiseWork& work, std::byte* const* data, const std::int64_t* steps,
                                    std::int64_t count, bool all_in_place) {
  alignas(64) std::byte buffers[ElementwiseLoop::kMostOperands][kBuffer * sizeof(double)];
  std::byte* places[ElementwiseLoop::kMostOperands];
  for (std::int64_t at = 0; at < count;) {
    const std::int64_t whole = (count - at) & -kVector;
    const std::int64_t n = whole == 0 ? count - at : all_in_place ? whole : std::min(whole, kBuffer);
    const std::int64_t vectors = (n + kVector - 1) & -kVector;
    for (std::size_t i = 0; i < work.data.size(); ++i) {
      const ElementwiseOperand& operand = work.loop.operands[i];
      const ElementMoves& moves = moves_of(operand.stored);
      std::byte* const from = data[i] + at * steps[i] * moves.stored_bytes;
      if (steps[i] == 1 && n % kVector == 0 && moves.are_copies()) {
        places[i] = from;
        continue;
      }
      places[i] = buffers[i];
      if (operand.reads) moves.load(from, steps[i], n, buffers[i], vectors);
    }
    work.loop.run(work.f, vectors, places);
    for (std::size_t i = 0; i < work.data.size(); ++i)
      if (work.loop.operands[i].writes && places[i] == buffers[i]) {
        const ElementMoves& moves = moves_of(work.loop.operands[i].stored);
        moves.store(buffers[i], n, data[i] + at * steps[i] * moves.stored_bytes, steps[i]);
      }
    at += n;
  }
}

constexpr std::array<std::int64_t, ElementwiseLoop::kMostOperands> kOnes = [] {
  std::array<std::int64_t, ElementwiseLoop::kMostOperands> ones = {};
  ones.fill(1);
  return ones;
}();

std::int64_t bytes_of(const ElementwiseWork& work, std::size_t i) {
  return moves_of(work.loop.operands[i].stored).stored_bytes;
}

}  // namespace

void elementwise_row(const ElementwiseWork& work, std::int64_t count) {
  if (work.loop.takes_stored && (work.loop.takes_any_count || count % kVector == 0))
    return work.loop.run(work.f, count, work.data.data());
  buffered_row(work, work.data.data(), kOnes.data(), count, work.loop.takes_stored);
}

void elementwise(const KernelContext& context, const ElementwiseWork& work, const Shape& sizes, const Shape* strides,
                 bool dense) {
  const std::size_t operands = work.data.size();
  if (dense || sizes.empty()) {
    const std::int64_t count = dense ? sizes[0] : 1;
    if (!context.parallel || count <= work.loop.grain) return elementwise_row(work, count);
    return parallel_for(context, count, work.loop.grain, [&](std::int64_t begin, std::int64_t end) {
      std::byte* at[ElementwiseLoop::kMostOperands];
      for (std::size_t i = 0; i < operands; ++i) at[i] = work.data[i] + begin * bytes_of(work, i);
      elementwise_row(ElementwiseWork(work.loop, work.f, {at, operands}), end - begin);
    });
  }
  const int last = sizes.rank() - 1;
  const std::int64_t inner = sizes.back();
  std::int64_t steps[ElementwiseLoop::kMostOperands];
  bool dense_rows = true;
  for (std::size_t i = 0; i < operands; ++i) {
    steps[i] = strides[i][last];
    dense_rows = dense_rows && steps[i] == 1;
  }
  parallel_for(context, sizes.elements() / inner, work.loop.grain / inner + 1,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t r = begin; r < end; ++r) {
                   std::byte* at[ElementwiseLoop::kMostOperands];
                   std::copy_n(work.data.data(), operands, at);
                   std::int64_t index = r;
                   for (int d = last - 1; d >= 0; --d) {
                     const std::int64_t place = index % sizes[d];
                     index /= sizes[d];
                     for (std::size_t i = 0; i < operands; ++i) at[i] += place * strides[i][d] * bytes_of(work, i);
                   }
                   if (dense_rows)
                     elementwise_row(ElementwiseWork(work.loop, work.f, {at, operands}), inner);
                   else
                     buffered_row(work, at, steps, inner, false);
                 }
               });
}

}  // namespace lockstep::host
