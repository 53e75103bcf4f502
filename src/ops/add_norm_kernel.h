// The kernel of a residual connection and the norm behind it: sum = x + branch, y = norm(sum) * weight + bias, for each
// row of dense rows. Without a branch it is a norm whose result has another dtype than x.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include <lockstep/core/vectorized.h>
#include <lockstep/kernels/row_team.h>

#include "cpu/parallel.h"
#include "kernels/launch.h"
#include "kernels/rows/row_buffer.h"
#include "ops/normalize_row.h"

namespace lockstep {

/// X: the type of x and sum; Y: that of branch and y. Both have the compute type float. The norm is that of the sum as
/// it is stored.
template <class XElement, class YElement, bool kHasMean>
struct AddNormKernel {
  using X = XElement;
  using Y = YElement;
  static constexpr bool kCentered = kHasMean;

  float eps;
  const X* x;           // [rows, length], as branch, sum and y
  const Y* branch;      // null: y is the norm of x, and sum is not written
  const float* weight;  // [length] or null; not null if not kCentered
  const float* bias;    // [length] or null
  X* sum;               // null if branch is
  Y* y;
  std::int64_t rows, length;

  void operator()(const KernelContext& context) const {
    host::parallel_for(context, rows, (1 << 14) / length + 1,
                       [this](std::int64_t begin, std::int64_t end) { take(begin, end); });
  }

 private:
  static constexpr bool kIsXWide = std::is_same_v<X, float>, kIsYWide = std::is_same_v<Y, float>;

  // Takes some rows at a time. Rows of 16-bit elements are converted to float in buffers.
  void take(std::int64_t begin, std::int64_t end) const {
    enum { kX, kBranch, kY, kOperands };
    const std::array<host::RowBuffers::Operand, kOperands> operands = {
        {{kStored<X>, kIsXWide ? 0 : length, 1, length},
         {kStored<Y>, kIsYWide ? 0 : length, 1, length},
         {kStored<Y>, kIsYWide ? 0 : length, 1, length}}};
    const std::int64_t at_once = host::RowBuffers::rows_at_once(length);
    host::RowBuffers buffers(operands, at_once);
    const auto buffer = [&](std::size_t n) { return reinterpret_cast<float*>(buffers.rows(n)); };
    for (std::int64_t r = begin, count; r < end; r += count) {
      count = std::min(at_once, end - r);
      const std::int64_t at = r * length, elements = count * length;
      const float* sums = add(buffers, buffer(kX), buffer(kBranch), r, count);
      float* normal = buffer(kY);
      if constexpr (kIsYWide) normal = y + at;
      vectorized([&] {
        for (std::int64_t i = 0; i < count; ++i) normalize(sums + i * length, normal + i * length);
      });
      if constexpr (!kIsYWide)
        host::moves_of(kStored<Y>).store(normal, elements, reinterpret_cast<std::byte*>(y + at), 1);
    }
  }

  // The sums of some rows in float: where they are, or in `wide`.
  const float* add(host::RowBuffers& buffers, float* wide, float* wide_branch, std::int64_t r,
                   std::int64_t count) const {
    const std::int64_t at = r * length, elements = count * length;
    if constexpr (!kIsXWide) buffers.load(0, x, at, count);
    const float* from = wide;
    if constexpr (kIsXWide) from = x + at;
    if (!branch) return from;
    const float* more = wide_branch;
    if constexpr (kIsYWide)
      more = branch + at;
    else
      buffers.load(1, branch, at, count);
    float* to = wide;
    if constexpr (kIsXWide) to = sum + at;
    vectorized([&] {
      LOCKSTEP_IVDEP
      for (std::int64_t i = 0; i < elements; ++i) to[i] = from[i] + more[i];
    });
    if constexpr (!kIsXWide) {  // rounds the sums
      buffers.store(0, sum, at, count);
      buffers.load(0, sum, at, count);
    }
    return to;
  }

  LOCKSTEP_INLINE void normalize(const float* from, float* to) const {
    const auto row = [this](const float* data) { return RowOf<const float>{data, length, 1}; };
    const NormalizeRow<float, kCentered> of = {eps, {weight != nullptr, bias != nullptr}};
    const RowOf<const float> weights = row(weight ? weight : from);
    if constexpr (kCentered)
      of(OneThread(), RowOf<float>{to, length, 1}, row(from), weights, row(bias ? bias : from));
    else
      of(OneThread(), RowOf<float>{to, length, 1}, row(from), weights);
  }
};

}  // namespace lockstep

#ifdef LOCKSTEP_DEVICE_FORMS
#include "ops/add_norm_cuda.h"
#endif
