// All time steps of an LSTM on the host. Sequences are independent, so a thread computes all time steps of its piece of
// the batch: the threads synchronize once, and a time step's result is in the cache for the next one. A row's result
// does not depend on the division into pieces.
#include <algorithm>

#include <lockstep/core/vectorized.h>
#include <lockstep/runtime/threads.h>

#include "cpu/fused_dispatch.h"
#include "cpu/parallel.h"
#include "cpu/products/panels.h"
#include "runtime/fused_ops/lstm_cell.h"

namespace lockstep::host {
namespace {

constexpr std::int64_t kGates = 4;
// A sequence of at least kParallelStep multiplications is divided between threads, by rows of the batch. If a single
// time step has that many multiplications but the batch has fewer than kFewRows rows, the LSTM is declined, because
// cores would be idle.
constexpr std::int64_t kParallelStep = std::int64_t(1) << 18, kFewRows = 8;

// The sizes of an LSTM. All operands but the weight are [steps, batch, width] or [batch, width].
struct Sizes {
  std::int64_t steps, batch, hidden;

  explicit Sizes(const FusedOperand& gates)
      : steps(gates.sizes[0]), batch(gates.sizes[1]), hidden(gates.sizes[2] / kGates) {}
  std::int64_t multiplications() const { return batch * kGates * hidden * hidden; }
};

float* data_of(const FusedOperand& operand) { return static_cast<float*>(operand.data); }

Panels packed(const KernelContext& context, const PanelSource& source, void* workspace) {
  auto* const to = static_cast<float*>(workspace);
  const std::int64_t grain = (1 << 15) / std::max<std::int64_t>(source.k * Panels::columns(), 1) + 1;
  parallel_for(context, Panels::count(source.n), grain,
               [&](std::int64_t begin, std::int64_t end) { pack_panels(source, begin, end, to); });
  return {to, source.k, source.n};
}

// Calls body(first row, end row) for pieces of the batch: one piece per core if there is enough work.
template <class Body>
void for_pieces(const KernelContext& context, const Sizes& sizes, const Body& body) {
  const std::int64_t tiles = (sizes.batch + kPanelRows - 1) / kPanelRows;
  const std::int64_t cores =
      context.parallel && sizes.multiplications() * sizes.steps >= kParallelStep ? num_threads() : 1;
  const std::int64_t pieces = std::min(cores, tiles);
  parallel_for(context, pieces, 1, [&](std::int64_t begin, std::int64_t end) {
    body(begin * tiles / pieces * kPanelRows, std::min(sizes.batch, end * tiles / pieces * kPanelRows));
  });
}

void forward_row(std::int64_t n, float* gates, const float* c_before, float* h, float* c) {
  float *const i = gates, *const f = i + n, *const g = f + n, *const o = g + n;
  vectorized([=] {
    LOCKSTEP_IVDEP
    for (std::int64_t j = 0; j < n; ++j) LstmForward()(h[j], c[j], i[j], f[j], g[j], o[j], c_before[j]);
  });
}
void backward_row(std::int64_t n, const float* gates, const float* c_before, const float* c, const float* d_output,
                  const float* dh, float* dc, float* d_gates) {
  const float *const i = gates, *const f = i + n, *const g = f + n, *const o = g + n;
  float *const di = d_gates, *const df = di + n, *const dg = df + n, *const d_o = dg + n;
  vectorized([=] {
    LOCKSTEP_IVDEP
    for (std::int64_t j = 0; j < n; ++j)
      LstmBackward()(dc[j], di[j], df[j], dg[j], d_o[j], i[j], f[j], g[j], o[j], c_before[j], c[j], d_output[j], dh[j]);
  });
}

void forward(const KernelContext& context, const FusedOp& op, void* workspace) {
  const auto& x = op.operands;
  const Sizes sizes(x[0]);
  const std::int64_t n = sizes.hidden, wide = kGates * n;
  const Panels weight = packed(context, {data_of(x[1]), n, wide, 1, n}, workspace);
  for_pieces(context, sizes, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t nth = 0; nth < sizes.steps; ++nth) {
      const std::int64_t first = (op.reverse ? sizes.steps - 1 - nth : nth) * sizes.batch;
      multiply_panels(to - from, data_of(x[2]) + (first + from) * n, n, weight, data_of(x[0]) + (first + from) * wide,
                      wide, true);
      for (std::int64_t row = first + from; row < first + to; ++row)
        forward_row(n, data_of(x[0]) + row * wide, data_of(x[3]) + row * n, data_of(x[4]) + row * n,
                    data_of(x[5]) + row * n);
    }
  });
}

void backward(const KernelContext& context, const FusedOp& op, void* workspace) {
  const auto& x = op.operands;
  const Sizes sizes(x[2]);
  const std::int64_t n = sizes.hidden, wide = kGates * n;
  const Panels weight = packed(context, {data_of(x[1]), wide, n, n, 1}, workspace);
  float *const dh = data_of(x[5]), *const dc = data_of(x[6]), *const d_gates = data_of(x[7]);
  for_pieces(context, sizes, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t nth = sizes.steps; nth-- > 0;) {
      const std::int64_t first = (op.reverse ? sizes.steps - 1 - nth : nth) * sizes.batch;
      for (std::int64_t r = from; r < to; ++r) {
        const std::int64_t row = first + r;
        backward_row(n, data_of(x[2]) + row * wide, data_of(x[3]) + row * n, data_of(x[4]) + row * n,
                     data_of(x[0]) + row * n, dh + r * n, dc + r * n, d_gates + row * wide);
      }
      multiply_panels(to - from, d_gates + (first + from) * wide, wide, weight, dh + from * n, n, false);
    }
  });
}

}  // namespace

std::optional<std::size_t> lstm_workspace_size(const FusedOp& op) {
  const bool gradient = op.kind == FusedKind::lstm_gradient;
  for (int i = 0; i < (gradient ? 8 : 6); ++i) {
    const FusedOperand& operand = op.operands[std::size_t(i)];
    if (operand.dtype != kFloat32 || !is_row_major(operand)) return std::nullopt;
  }
  const Sizes sizes(op.operands[gradient ? 2 : 0]);
  if (sizes.batch < kFewRows && sizes.multiplications() >= kParallelStep) return std::nullopt;
  const std::int64_t n = sizes.hidden, wide = kGates * n;
  return gradient ? Panels::bytes(wide, n) : Panels::bytes(n, wide);
}

void lstm(const KernelContext& context, const FusedOp& op, void* workspace) {
  if (op.kind == FusedKind::lstm) return forward(context, op, workspace);
  backward(context, op, workspace);
}

}  // namespace lockstep::host
