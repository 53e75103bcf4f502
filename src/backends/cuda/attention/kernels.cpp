#include <algorithm>
#include <limits>
#include <type_traits>

#include "backends/cuda/attention/attention.h"
#include "backends/cuda/attention/forward.h"
#include "backends/cuda/attention/gradients.h"

namespace lockstep::gpu::flash {
namespace {

constexpr int kMostFeatures = 128;

bool is_gradient(const FusedOp& op) { return op.kind == FusedKind::attention_gradient; }

// The operands of attention and of its gradient.
struct Operands {
  const FusedOperand &query, &key, &value, &mask, &y, &logsumexp, &start;

  explicit Operands(const FusedOp& op) : Operands(op, is_gradient(op) ? 1 : 0) {}

 private:
  Operands(const FusedOp& op, std::size_t g)
      : query(op.operands[g]),
        key(op.operands[g + 1]),
        value(op.operands[g + 2]),
        mask(op.operands[g + 3]),
        y(op.operands[g + 4]),
        logsumexp(op.operands[g + 5]),
        start(op.operands[g == 0 ? 6 : 10]) {}
};

std::int64_t tiles_of(std::int64_t rows) { return (rows + kRows - 1) / kRows; }

template <class T>
Matrices<T> matrices_of(const FusedOperand& x) {
  constexpr std::int64_t kWhole = std::is_const_v<T> ? 8 : 2;  // elements of a pack
  Matrices<T> matrices = {static_cast<T*>(x.data),
                          x.strides[0],
                          x.strides[1],
                          x.strides[2],
                          int(x.sizes[3]),
                          reinterpret_cast<std::uintptr_t>(x.data) % (kWhole * sizeof(T)) == 0};
  for (int d = 0; d < 3; ++d) matrices.in_packs = matrices.in_packs && (x.sizes[d] == 1 || x.strides[d] % kWhole == 0);
  return matrices;
}

template <class T>
Inputs<T> inputs_of(const FusedOp& op, const Operands& x) {
  Inputs<T> in = {.query = matrices_of<const T>(x.query),
                  .key = matrices_of<const T>(x.key),
                  .value = matrices_of<const T>(x.value),
                  .mask = {},
                  .heads = int(x.query.sizes[1]),
                  .groups = int(x.key.sizes[1]),
                  .queries = int(x.query.sizes[2]),
                  .keys = int(x.key.sizes[2]),
                  .scale = float(op.scale),
                  .causal = op.causal,
                  .dropout = {}};
  if (x.mask.present)
    in.mask = {static_cast<const T*>(x.mask.data), x.mask.strides[0], x.mask.strides[1], x.mask.strides[2],
               x.mask.strides[3]};
  const FusedDropout& dropout = op.dropout;
  if (dropout.threshold != 0)
    in.dropout = {.threshold = dropout.threshold,
                  .scale = float(dropout.scale),
                  .seed = dropout.start[0],
                  .stream = dropout.start[1],
                  .offset = dropout.start[2],
                  .start = x.start.present ? static_cast<const std::uint64_t*>(x.start.data) : nullptr,
                  .first = dropout.first,
                  .stride = dropout.stride,
                  .run = Divisor(dropout.run)};
  return in;
}

template <class Arguments>
cudaError_t enqueue(void (*kernel)(Arguments, int), const std::type_identity_t<Arguments>& arguments, std::int64_t rows,
                    std::int64_t heads, cudaStream_t stream, KernelLoader& loader) {
  cudaLaunchConfig_t config = {};
  config.gridDim = unsigned(tiles_of(rows) * heads);
  config.blockDim = flash::kThreads;
  config.stream = stream;
  loader.load(reinterpret_cast<const void*>(kernel));
  return cudaLaunchKernelEx(&config, kernel, arguments, int(tiles_of(rows)));
}

template <class T, int D, bool kPlain>
cudaError_t run(const FusedOp& op, void* workspace, cudaStream_t stream, KernelLoader& loader) {
  const Operands x(op);
  const Shape &log_strides = x.logsumexp.strides, &sizes = x.query.sizes;
  const std::int64_t batch = log_strides[0], head = log_strides[1], query = log_strides[2];
  auto* const logsumexp = static_cast<float*>(x.logsumexp.data);
  if (!is_gradient(op)) {
    const ForwardArguments<T> arguments = {inputs_of<T>(op, x), matrices_of<T>(x.y), logsumexp, batch, head, query};
    return enqueue(forward<T, D, kPlain>, arguments, sizes[2], sizes[0] * sizes[1], stream, loader);
  }
  const GradientArguments<T> arguments = {inputs_of<T>(op, x),
                                          matrices_of<const T>(op.operands[0]),
                                          matrices_of<const T>(x.y),
                                          logsumexp,
                                          batch,
                                          head,
                                          query,
                                          static_cast<float*>(workspace),
                                          matrices_of<T>(op.operands[7]),
                                          matrices_of<T>(op.operands[8]),
                                          matrices_of<T>(op.operands[9])};
  const cudaError_t error =
      enqueue(query_gradient<T, D, kPlain>, arguments, sizes[2], sizes[0] * sizes[1], stream, loader);
  if (error != cudaSuccess) return error;
  return enqueue(key_gradient<T, D, kPlain>, arguments, x.key.sizes[2], sizes[0] * x.key.sizes[1], stream, loader);
}

template <class T>
cudaError_t run_as(const FusedOp& op, void* workspace, cudaStream_t stream, KernelLoader& loader) {
  const Operands x(op);
  const bool narrow = std::max(x.query.sizes[3], x.value.sizes[3]) <= 64;
  const bool plain = !x.mask.present && op.dropout.threshold == 0;
  if (narrow && plain) return run<T, 64, true>(op, workspace, stream, loader);
  if (narrow) return run<T, 64, false>(op, workspace, stream, loader);
  if (plain) return run<T, 128, true>(op, workspace, stream, loader);
  return run<T, 128, false>(op, workspace, stream, loader);
}

}  // namespace
}  // namespace lockstep::gpu::flash

namespace lockstep::gpu {

bool is_attention(const FusedOp& op) { return op.kind == FusedKind::attention || flash::is_gradient(op); }

std::optional<std::size_t> attention_workspace_size(const FusedOp& op, int capability) {
  const flash::Operands x(op);
  const DType dtype = x.query.dtype;
  if (capability < 8 || (dtype != kFloat16 && dtype != kBFloat16) || x.logsumexp.dtype != kFloat32) return std::nullopt;
  const std::size_t count = flash::is_gradient(op) ? 10 : 6;
  for (std::size_t i = 0; i < count; ++i) {
    const FusedOperand& operand = op.operands[i];
    if (&operand == &x.logsumexp || !operand.present) continue;
    if (operand.dtype != dtype || operand.sizes.elements() == 0) return std::nullopt;
    if (&operand == &x.mask) continue;
    if (operand.sizes[3] > flash::kMostFeatures || (operand.strides[3] != 1 && operand.sizes[3] != 1))
      return std::nullopt;
  }
  const Shape &q = x.query.sizes, &k = x.key.sizes;
  constexpr std::int64_t kMost = std::numeric_limits<int>::max() - 2 * flash::kRows;
  if (q[2] > kMost || k[2] > kMost || q[0] * q[1] * flash::tiles_of(std::max(q[2], k[2])) > kMost) return std::nullopt;
  if (op.dropout.threshold != 0 && op.dropout.run % k[2] != 0) return std::nullopt;
  return flash::is_gradient(op) ? std::size_t(q[0] * q[1] * q[2]) * sizeof(float) : 0;
}

cudaError_t run_attention(const FusedOp& op, void* workspace, cudaStream_t stream, KernelLoader& loader) {
  return op.operands[0].dtype == kFloat16 ? flash::run_as<Half>(op, workspace, stream, loader)
                                          : flash::run_as<BFloat16>(op, workspace, stream, loader);
}

}  // namespace lockstep::gpu
