// Matrix products on the host: OpenBLAS, on one thread each, on pieces that oneTBB runs over the cores.
#include <cblas.h>

#include <algorithm>
#include <vector>

#include <lockstep/runtime/threads.h>

#include "core/ranked_mutex.h"
#include "runtime/host/library_use.h"
#include "runtime/host/matmul_piece.h"
#include "runtime/host/parallel.h"

namespace lockstep::host {
namespace {

// Below this many multiplications a plain loop is done before a library call has chosen its kernel.
constexpr std::int64_t kTinyProduct = 2048;
// Above this many a product is worth dividing between cores.
constexpr std::int64_t kParallelProduct = std::int64_t(1) << 18;

// Built without threads, OpenBLAS has no locks either: two products at once take the same buffer, and both are wrong.
using LibraryMutex = RankedMutex<LockRank::host_library>;

std::unique_lock<LibraryMutex> may_call() {
  static LibraryMutex mutex;
  static const bool one_at_a_time = [] {
    openblas_set_num_threads(1);  // the pieces are divided between cores already
    return openblas_get_parallel() == OPENBLAS_SEQUENTIAL;
  }();
  return one_at_a_time ? std::unique_lock(mutex) : std::unique_lock<LibraryMutex>();
}

void gemm(const Matmul& p, const float* a, const float* b, float* c) {
  const auto guard = may_call();
  cblas_sgemm(CblasRowMajor, p.transpose_a ? CblasTrans : CblasNoTrans, p.transpose_b ? CblasTrans : CblasNoTrans,
              int(p.m), int(p.n), int(p.k), float(p.alpha), a, int(p.lda), b, int(p.ldb), float(p.beta), c, int(p.ldc));
}

void gemm(const Matmul& p, const double* a, const double* b, double* c) {
  const auto guard = may_call();
  cblas_dgemm(CblasRowMajor, p.transpose_a ? CblasTrans : CblasNoTrans, p.transpose_b ? CblasTrans : CblasNoTrans,
              int(p.m), int(p.n), int(p.k), p.alpha, a, int(p.lda), b, int(p.ldb), p.beta, c, int(p.ldc));
}

template <class T>
void tiny(const Matmul& p, const T* a, const T* b, T* c) {
  const std::int64_t a_row = p.transpose_a ? 1 : p.lda, a_col = p.transpose_a ? p.lda : 1;
  const std::int64_t b_row = p.transpose_b ? 1 : p.ldb, b_col = p.transpose_b ? p.ldb : 1;
  for (std::int64_t i = 0; i < p.m; ++i)
    for (std::int64_t j = 0; j < p.n; ++j) {
      T sum = 0;
      for (std::int64_t k = 0; k < p.k; ++k) sum += a[i * a_row + k * a_col] * b[k * b_row + j * b_col];
      T& out = c[i * p.ldc + j];
      out = T(p.alpha) * sum + (p.beta == 0 ? T(0) : T(p.beta) * out);
    }
}

// While the piece is in the cache.
template <class T>
void activate_all(const Matmul& p, T* c) {
  const auto each = [&](auto f) {
    for (std::int64_t i = 0; i < p.m; ++i)
      for (std::int64_t j = 0; j < p.n; ++j) c[i * p.ldc + j] = f(c[i * p.ldc + j]);
  };
  if (p.activation == Activation::relu) each([](T x) { return relu_of(x); });
  if (p.activation == Activation::gelu_tanh) each([](T x) { return gelu_tanh_of(x); });
}

template <class T>
void serial(Matmul p, const T* a, const T* b, T* c, const T* bias) {
  if (bias) {
    for (std::int64_t i = 0; i < p.m; ++i) std::copy_n(bias, p.n, c + i * p.ldc);
    p.beta = 1;
  }
  if (p.m * p.n * p.k <= kTinyProduct)
    tiny(p, a, b, c);
  else
    gemm(p, a, b, c);
  activate_all(p, c);
}

// One product, its longer side divided between the cores.
template <class T>
void divided(const KernelContext& context, const Matmul& p, const T* a, const T* b, T* c, const T* bias) {
  const bool by_rows = p.m >= p.n;
  const std::int64_t side = by_rows ? p.m : p.n;
  const std::int64_t cores = context.parallel ? num_threads() : 1;
  const std::int64_t grain = (((side + cores - 1) / cores + 15) / 16) * 16;  // whole tiles of the library's kernels
  const bool worth = p.m * p.n * p.k >= kParallelProduct;
  const std::int64_t pieces = worth ? (side + grain - 1) / grain : 1;
  parallel_for(context, pieces, 1, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t from = begin * grain;
    const std::int64_t to = pieces == 1 ? side : std::min(side, end * grain);
    Matmul piece = p;
    (by_rows ? piece.m : piece.n) = to - from;
    const std::int64_t a_step = by_rows ? (p.transpose_a ? 1 : p.lda) : 0;
    const std::int64_t b_step = by_rows ? 0 : (p.transpose_b ? p.ldb : 1);
    serial(piece, a + from * a_step, b + from * b_step, c + from * (by_rows ? p.ldc : 1),
           bias && !by_rows ? bias + from : bias);
  });
}

template <class T>
void typed(const KernelContext& context, const Matmul& p) {
  const auto* a = static_cast<const T*>(p.a);
  const auto* b = static_cast<const T*>(p.b);
  auto* c = static_cast<T*>(p.c);
  const auto* bias = static_cast<const T*>(p.bias);
  if (p.batch == 1) return divided(context, p, a, b, c, bias);
  const std::int64_t grain = std::max<std::int64_t>(1, kParallelProduct / std::max<std::int64_t>(1, p.m * p.n * p.k));
  parallel_for(context, p.batch, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      serial(p, a + i * p.stride_a, b + i * p.stride_b, c + i * p.stride_c, bias);
  });
}

// The 16-bit types compute in float, one matrix after the other.
template <class Narrow>
void widened(const KernelContext& context, const Matmul& p) {
  const auto widen = [](const void* from, std::int64_t at, std::int64_t rows, std::int64_t cols, std::int64_t pitch) {
    const auto* narrow = static_cast<const Narrow*>(from) + at;
    std::vector<float> wide(std::size_t(rows * cols));
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < cols; ++j) wide[std::size_t(i * cols + j)] = float(narrow[i * pitch + j]);
    return wide;
  };
  Matmul q = p;
  q.batch = 1;
  q.lda = p.transpose_a ? p.m : p.k;
  q.ldb = p.transpose_b ? p.k : p.n;
  q.ldc = p.n;
  for (std::int64_t i = 0; i < p.batch; ++i) {
    const auto a = widen(p.a, i * p.stride_a, p.transpose_a ? p.k : p.m, q.lda, p.lda);
    const auto b = widen(p.b, i * p.stride_b, p.transpose_b ? p.n : p.k, q.ldb, p.ldb);
    std::vector<float> c =
        p.beta == 0 ? std::vector<float>(std::size_t(p.m * p.n)) : widen(p.c, i * p.stride_c, p.m, p.n, p.ldc);
    const std::vector<float> bias = p.bias ? widen(p.bias, 0, 1, p.n, p.n) : std::vector<float>();
    divided(context, q, a.data(), b.data(), c.data(), p.bias ? bias.data() : nullptr);
    auto* out = static_cast<Narrow*>(p.c) + i * p.stride_c;
    for (std::int64_t row = 0; row < p.m; ++row)
      for (std::int64_t col = 0; col < p.n; ++col) out[row * p.ldc + col] = Narrow(c[std::size_t(row * p.n + col)]);
  }
}

}  // namespace

void matmul_piece(const Matmul& p) {
  if (p.m == 0 || p.n == 0) return;
  if (p.dtype == kFloat32)
    serial(p, static_cast<const float*>(p.a), static_cast<const float*>(p.b), static_cast<float*>(p.c),
           static_cast<const float*>(p.bias));
  else
    serial(p, static_cast<const double*>(p.a), static_cast<const double*>(p.b), static_cast<double*>(p.c),
           static_cast<const double*>(p.bias));
}

void matmul(const KernelContext& context, const Matmul& p) {
  if (p.m == 0 || p.n == 0) return;
  const LibraryUse use;
  switch (p.dtype) {
    case kFloat32: return typed<float>(context, p);
    case kFloat64: return typed<double>(context, p);
    case kFloat16: return widened<Half>(context, p);
    default: return widened<BFloat16>(context, p);
  }
}

}  // namespace lockstep::host
