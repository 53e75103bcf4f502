#include "backends/cuda/matmul_plans.h"

#include <algorithm>
#include <utility>

#include <lockstep/core/error.h>

#include "backends/cuda/kernels.h"

namespace lockstep::gpu {
namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t(32) << 20;  // NVIDIA's recommendation for Hopper
constexpr std::size_t kMaxPlans = 1024;

using Description = std::unique_ptr<cublasLtMatmulDescOpaque_t, DestroyCublas<&CublasLt::cublasLtMatmulDescDestroy>>;
using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, DestroyCublas<&CublasLt::cublasLtMatrixLayoutDestroy>>;
using Preference =
    std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, DestroyCublas<&CublasLt::cublasLtMatmulPreferenceDestroy>>;

struct MatmulTypes {
  cudaDataType_t elements;
  cudaDataType_t scale;
  cublasComputeType_t compute;
};

MatmulTypes types_of(DType dtype, bool tf32) {
  switch (dtype) {
    case kFloat16: return {CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case kBFloat16: return {CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case kFloat64: return {CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F};
    default: return {CUDA_R_32F, CUDA_R_32F, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F};
  }
}

std::int64_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  return address == 0 ? 256 : std::int64_t(std::min<std::uintptr_t>(address & (0 - address), 256));
}

struct Setter {
  int device;

  template <class T>
  void operator()(const Description& description, cublasLtMatmulDescAttributes_t attribute, const T& value) const {
    check(cublas_lt().cublasLtMatmulDescSetAttribute(description.get(), attribute, &value, sizeof value),
          "cublasLtMatmulDescSetAttribute", device);
  }
  template <class T>
  void operator()(const Layout& layout, cublasLtMatrixLayoutAttribute_t attribute, const T& value) const {
    check(cublas_lt().cublasLtMatrixLayoutSetAttribute(layout.get(), attribute, &value, sizeof value),
          "cublasLtMatrixLayoutSetAttribute", device);
  }
  template <class T>
  void operator()(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute, const T& value) const {
    check(cublas_lt().cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value),
          "cublasLtMatmulPreferenceSetAttribute", device);
  }
};

cublasLtEpilogue_t epilogue_of(const Matmul& m) {
  if (m.row_sums) return CUBLASLT_EPILOGUE_BGRADB;  // the sums of cuBLAS's second factor, our a, along k
  switch (m.activation) {
    case Activation::relu: return m.bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    case Activation::gelu_tanh: return m.bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    default: return m.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  }
}

Layout make_layout(int device, cudaDataType_t type, std::int64_t rows, std::int64_t columns, std::int64_t ld,
                   std::int64_t batch, std::int64_t stride) {
  cublasLtMatrixLayout_t made = nullptr;
  check(cublas_lt().cublasLtMatrixLayoutCreate(&made, type, std::uint64_t(rows), std::uint64_t(columns),
                                               std::max(ld, rows)),
        "cublasLtMatrixLayoutCreate", device);
  Layout layout(made);
  if (batch == 1) return layout;
  Setter{device}(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, std::int32_t(batch));
  Setter{device}(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride);
  return layout;
}

}  // namespace

// cuBLAS is column-major, so its c is the transpose of ours. Therefore its first factor is our b, its second our a.
struct MatmulPlans::Plan {
  Description description;
  Layout a, b, c;
  cublasLtMatmulAlgo_t algorithm;
  cublasLtEpilogue_t epilogue;
};

MatmulPlans::MatmulPlans(int device, bool tf32, IssueMutex& issue_mutex)
    : device_(device), tf32_(tf32), issue_mutex_(issue_mutex) {
  const std::scoped_lock issue_lock(issue_mutex_);
  cublasLtHandle_t handle = nullptr;
  check(cublas_lt().cublasLtCreate(&handle), "cublasLtCreate", device);
  handle_.reset(handle);
  workspace_ = make_memory(device, kWorkspaceBytes);
}

MatmulPlans::~MatmulPlans() = default;

MatmulPlans::Key MatmulPlans::key_of(const Matmul& m) {
  return {std::int64_t(m.dtype),
          m.m,
          m.n,
          m.k,
          m.lda,
          m.ldb,
          m.ldc,
          m.transpose_a,
          m.transpose_b,
          m.batch,
          m.stride_a,
          m.stride_b,
          m.stride_c,
          m.beta == 0,
          m.bias       ? 1
          : m.row_sums ? 2
                       : 0,
          alignment_of(m.a),
          alignment_of(m.b),
          alignment_of(m.c),
          alignment_of(m.bias ? m.bias : m.row_sums),
          std::int64_t(m.activation),
          m.float32_output};
}

// If cuBLASLt does not support the epilogue (bias, activation) for this kind of product, makes a plan without it; run()
// then launches a kernel for the epilogue. It also does so for GELU in float64, because cuBLASLt's is accurate to only
// ten digits (measured with 13.0 on an H200).
MatmulPlans::Plan MatmulPlans::make(const Matmul& m, const Key& key) const {
  const cublasLtEpilogue_t epilogue = epilogue_of(m);
  std::optional<Plan> plan;
  if (m.dtype != kFloat64 || m.activation != Activation::gelu_tanh) plan = try_make(m, key, epilogue);
  if (!plan && epilogue != CUBLASLT_EPILOGUE_DEFAULT && !m.row_sums) plan = try_make(m, key, CUBLASLT_EPILOGUE_DEFAULT);
  if (!plan) check(CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmulAlgoGetHeuristic", device_);
  return *std::move(plan);
}

// Returns nullopt if cuBLASLt has no algorithm.
std::optional<MatmulPlans::Plan> MatmulPlans::try_make(const Matmul& m, const Key& key,
                                                       cublasLtEpilogue_t epilogue) const {
  const MatmulTypes types = types_of(m.dtype, tf32_);
  const cudaDataType_t output = types_of(m.output(), tf32_).elements;
  const Setter set{device_};
  Plan plan;
  cublasLtMatmulDesc_t description = nullptr;
  check(cublas_lt().cublasLtMatmulDescCreate(&description, types.compute, types.scale), "cublasLtMatmulDescCreate",
        device_);
  plan.description.reset(description);
  set(plan.description, CUBLASLT_MATMUL_DESC_TRANSA, m.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(plan.description, CUBLASLT_MATMUL_DESC_TRANSB, m.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  plan.epilogue = epilogue;
  set(plan.description, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
  if (const void* const vector = m.bias ? m.bias : m.row_sums; epilogue != CUBLASLT_EPILOGUE_DEFAULT && vector) {
    set(plan.description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector);
    set(plan.description, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, output);
  }
  plan.a = make_layout(device_, types.elements, m.transpose_b ? m.k : m.n, m.transpose_b ? m.n : m.k, m.ldb, m.batch,
                       m.stride_b);
  plan.b = make_layout(device_, types.elements, m.transpose_a ? m.m : m.k, m.transpose_a ? m.k : m.m, m.lda, m.batch,
                       m.stride_a);
  plan.c = make_layout(device_, output, m.n, m.m, m.ldc, m.batch, m.stride_c);

  cublasLtMatmulPreference_t made = nullptr;
  check(cublas_lt().cublasLtMatmulPreferenceCreate(&made), "cublasLtMatmulPreferenceCreate", device_);
  const Preference preference(made);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
  // An algorithm that splits a long inner dimension (split-k) must add the parts in a fixed order, in the compute type.
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  // The bias needs no preference: cuBLASLt derives its alignment from its pointer.
  const auto [a_bytes, b_bytes, c_bytes] = std::array{key[15], key[16], key[17]};
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, std::uint32_t(b_bytes));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, std::uint32_t(a_bytes));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, std::uint32_t(c_bytes));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, std::uint32_t(c_bytes));

  cublasLtMatmulHeuristicResult_t best = {};
  int found = 0;
  const cublasStatus_t asked =
      cublas_lt().cublasLtMatmulAlgoGetHeuristic(handle_.get(), plan.description.get(), plan.a.get(), plan.b.get(),
                                                 plan.c.get(), plan.c.get(), preference.get(), 1, &best, &found);
  if (asked == CUBLAS_STATUS_NOT_SUPPORTED || (asked == CUBLAS_STATUS_SUCCESS && found == 0)) return std::nullopt;
  check(asked, "cublasLtMatmulAlgoGetHeuristic", device_);
  if (best.state != CUBLAS_STATUS_SUCCESS) return std::nullopt;  // best.algo is not filled in
  plan.algorithm = best.algo;
  return plan;
}

bool MatmulPlans::has_row_sums(const Matmul& m) {
  if (m.m == 0 || m.n == 0 || m.k == 0 || m.batch != 1) return false;
  const Key key = key_of(m);
  if (plans_.contains(key)) return true;
  if (without_row_sums_.contains(key)) return false;
  const std::scoped_lock issue_lock(issue_mutex_);
  if (plans_.size() >= kMaxPlans) plans_.clear();
  if (without_row_sums_.size() >= kMaxPlans) without_row_sums_.clear();
  std::optional<Plan> plan = try_make(m, key, CUBLASLT_EPILOGUE_BGRADB);
  plan ? (void)plans_.emplace(key, *std::move(plan)) : (void)without_row_sums_.insert(key);
  return plans_.contains(key);
}

void MatmulPlans::run(const Matmul& m, cudaStream_t stream) {
  if (m.m == 0 || m.n == 0 || m.batch == 0) return;
  if (m.k == 0) {
    const std::scoped_lock issue_lock(issue_mutex_);
    return check(matmul_epilogue(m, stream), "cudaLaunchKernelEx", device_);
  }
  const Key key = key_of(m);
  if (const auto found = plans_.find(key); found != plans_.end()) return run(m, found->second, stream);
  const std::scoped_lock issue_lock(issue_mutex_);
  if (plans_.size() >= kMaxPlans) plans_.clear();
  run(m, plans_.emplace(key, make(m, key)).first->second, stream);
}

void MatmulPlans::run(const Matmul& m, const Plan& plan, cudaStream_t stream) const {
  const bool is_whole = plan.epilogue == epilogue_of(m);
  double kept = m.beta;
  if (const void* const vector = m.bias ? m.bias : m.row_sums; is_whole && vector)
    Setter{device_}(plan.description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector);
  if (!is_whole && m.activation == Activation::none) {  // c = bias first; cuBLASLt adds the product before it rounds
    check(matmul_epilogue(m, stream), "cudaLaunchKernelEx", device_);
    kept = 1;
  }
  const float narrow[] = {float(m.alpha), float(kept)};
  const double wide[] = {m.alpha, kept};
  const bool is_wide = m.dtype == kFloat64;
  const void* const alpha = is_wide ? static_cast<const void*>(&wide[0]) : &narrow[0];
  const void* const beta = is_wide ? static_cast<const void*>(&wide[1]) : &narrow[1];
  check(cublas_lt().cublasLtMatmul(handle_.get(), plan.description.get(), alpha, m.b, plan.a.get(), m.a, plan.b.get(),
                                   beta, m.c, plan.c.get(), m.c, plan.c.get(), &plan.algorithm, workspace_.get(),
                                   kWorkspaceBytes, stream),
        "cublasLtMatmul", device_);
  if (is_whole || m.activation == Activation::none) return;
  Matmul rest = m;
  rest.beta = 1;
  check(matmul_epilogue(rest, stream), "cudaLaunchKernelEx", device_);
}

}  // namespace lockstep::gpu
