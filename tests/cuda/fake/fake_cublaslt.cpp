#include <cublasLt.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <vector>

#include <lockstep/core/float16.h>

#include "cuda/fake/fake_cuda.h"

namespace {

using namespace lockstep;

// A descriptor of any kind: attributes by number.
struct Object {
  cudaDataType_t type = CUDA_R_32F;
  std::int64_t rows = 0, columns = 0, ld = 0;
  std::map<int, std::vector<char>> attributes;

  template <class T>
  T get(int attribute, T otherwise) const {
    const auto found = attributes.find(attribute);
    if (found == attributes.end()) return otherwise;
    if (found->second.size() != sizeof(T)) fake::complain("an attribute of another size");
    T value;
    std::memcpy(&value, found->second.data(), sizeof value);
    return value;
  }
};

template <class Handle>
Object& of(Handle handle) {
  return *reinterpret_cast<Object*>(handle);
}
template <class Handle>
cublasStatus_t create(Handle* handle, const Object& object) {
  *handle = reinterpret_cast<Handle>(new Object(object));
  return CUBLAS_STATUS_SUCCESS;
}
template <class Handle>
cublasStatus_t destroy(Handle handle) {
  delete reinterpret_cast<Object*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
template <class Handle>
cublasStatus_t set(Handle handle, int attribute, const void* value, std::size_t bytes) {
  const char* const begin = static_cast<const char*>(value);
  of(handle).attributes[attribute] = {begin, begin + bytes};
  return CUBLAS_STATUS_SUCCESS;
}

std::uint32_t epilogue_of(const Object& product) {
  return product.get(CUBLASLT_MATMUL_DESC_EPILOGUE, std::uint32_t(CUBLASLT_EPILOGUE_DEFAULT));
}
bool sums_second_factor(const Object& product) { return epilogue_of(product) == CUBLASLT_EPILOGUE_BGRADB; }
bool adds_bias(const Object& product) {
  return !sums_second_factor(product) && (epilogue_of(product) & CUBLASLT_EPILOGUE_BIAS) != 0;
}

// The GELU is the tanh approximation.
template <class T>
T finished(std::uint32_t epilogue, T x) {
  if (epilogue & CUBLASLT_EPILOGUE_RELU) return x > 0 ? x : T(0);
  if (epilogue & CUBLASLT_EPILOGUE_GELU)
    return T(0.5) * x * (1 + std::tanh(std::sqrt(T(2 / M_PI)) * (x + T(0.044715) * x * x * x)));
  return x;
}

// d = epilogue(alpha op(a) op(b) + beta c + bias), column-major, as defined by cuBLASLt's documentation. E is the type
// of the elements of a and b, O that of c and bias, T that of the sums.
template <class E, class O, class T>
void multiply(const Object& product, T alpha, const E* a, const Object& A, const E* b, const Object& B, T beta, O* c,
              const Object& C) {
  const bool ta = product.get(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_N) == CUBLAS_OP_T;
  const bool tb = product.get(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N) == CUBLAS_OP_T;
  const std::uint32_t epilogue = epilogue_of(product);
  const bool biased = adds_bias(product);
  const auto* const bias = static_cast<const O*>(product.get<const void*>(CUBLASLT_MATMUL_DESC_BIAS_POINTER, nullptr));
  const std::int64_t inner = ta ? A.rows : A.columns;
  if ((tb ? B.columns : B.rows) != inner || (ta ? A.columns : A.rows) != C.rows ||
      (tb ? B.rows : B.columns) != C.columns)
    return fake::complain("matrices that do not fit");
  const auto batches = C.get(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, std::int32_t(1));
  const auto stride = [](const Object& layout) {
    return layout.get(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, std::int64_t(0));
  };
  if (sums_second_factor(product)) {  // over k, for each column of the result
    auto* const sums = static_cast<O*>(product.get<void*>(CUBLASLT_MATMUL_DESC_BIAS_POINTER, nullptr));
    for (std::int64_t j = 0; j < C.columns; ++j) {
      T sum = 0;
      for (std::int64_t k = 0; k < inner; ++k) sum += T(tb ? b[k * B.ld + j] : b[j * B.ld + k]);
      sums[j] = O(sum);
    }
  }
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    const E *const x = a + batch * stride(A), *const y = b + batch * stride(B);
    O* const z = c + batch * stride(C);
    for (std::int64_t j = 0; j < C.columns; ++j)
      for (std::int64_t i = 0; i < C.rows; ++i) {
        T sum = 0;
        for (std::int64_t k = 0; k < inner; ++k)
          sum += T(ta ? x[i * A.ld + k] : x[k * A.ld + i]) * T(tb ? y[k * B.ld + j] : y[j * B.ld + k]);
        O& element = z[j * C.ld + i];
        const T whole = alpha * sum + (beta == 0 ? T(0) : beta * T(element)) + (biased ? T(bias[i]) : T(0));
        element = O(sums_second_factor(product) ? whole : finished(epilogue, whole));
      }
  }
}

}  // namespace

extern "C" {

const char* cublasLtGetStatusString(cublasStatus_t) { return "a fake status"; }
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) { return create(handle, Object()); }
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return destroy(handle); }
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description, cublasComputeType_t, cudaDataType_t scale) {
  Object object;
  object.type = scale;
  return create(description, object);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) { return destroy(description); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute, const void* value,
                                              std::size_t bytes) {
  return set(description, attribute, value, bytes);
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, std::uint64_t rows,
                                          std::uint64_t columns, std::int64_t ld) {
  if (ld < std::int64_t(rows)) return CUBLAS_STATUS_INVALID_VALUE;
  return create(layout, {type, std::int64_t(rows), std::int64_t(columns), ld, {}});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) { return destroy(layout); }
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                std::size_t bytes) {
  return set(layout, attribute, value, bytes);
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return create(preference, Object());
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) { return destroy(preference); }
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    std::size_t bytes) {
  return set(preference, attribute, value, bytes);
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int, cublasLtMatmulHeuristicResult_t* best,
                                              int* found) {
  fake::may_wait_for_cards("cublasLtMatmulAlgoGetHeuristic");
  constexpr std::uint32_t kKnown[] = {CUBLASLT_EPILOGUE_DEFAULT,   CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU,
                                      CUBLASLT_EPILOGUE_RELU_BIAS, CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS,
                                      CUBLASLT_EPILOGUE_BGRADB};
  const std::uint32_t epilogue = epilogue_of(of(product));
  if (std::ranges::find(kKnown, epilogue) == std::end(kKnown)) return CUBLAS_STATUS_INVALID_VALUE;
  if (epilogue != CUBLASLT_EPILOGUE_DEFAULT && !fake::machine().epilogues) return CUBLAS_STATUS_NOT_SUPPORTED;
  *found = 1;
  best->state = fake::machine().algorithms ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t product, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t A, const void* b, cublasLtMatrixLayout_t B, const void* beta,
                              const void* c, cublasLtMatrixLayout_t C, void* d, cublasLtMatrixLayout_t,
                              const cublasLtMatmulAlgo_t*, void* workspace, std::size_t workspace_bytes,
                              cudaStream_t stream) {
  fake::expect_memory("cublasLtMatmul", workspace, workspace_bytes);
  fake::use_kernel(product);  // the algorithm's kernel
  if (c != d) fake::complain("c is not d");
  if ((adds_bias(of(product)) || sums_second_factor(of(product))) &&
      !of(product).get<const void*>(CUBLASLT_MATMUL_DESC_BIAS_POINTER, nullptr))
    fake::complain("an epilogue adds a bias that is not there");
  const auto held = fake::lock();  // several threads count
  fake::machine().epilogues_used += !sums_second_factor(of(product)) &&
                                    (epilogue_of(of(product)) & (CUBLASLT_EPILOGUE_RELU | CUBLASLT_EPILOGUE_GELU)) != 0;
  const bool is_narrow = of(A).type == CUDA_R_16F || of(A).type == CUDA_R_16BF;
  const bool is_wider = is_narrow && of(C).type == CUDA_R_32F;
  if (of(A).type != of(B).type || (of(A).type != of(C).type && !is_wider)) fake::complain("matrices of several types");
  if (adds_bias(of(product)) && of(product).get(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, of(C).type) != of(C).type)
    fake::complain("a bias of another type than the output");
  ++fake::machine().products;
  const auto run_as = [&]<class E, class O, class T>(E, O, T) {
    if (fake::machine().address_only) return;
    fake::enqueue(stream, [=, Product = of(product), A = of(A), B = of(B), C = of(C),
                           al = *static_cast<const T*>(alpha), be = *static_cast<const T*>(beta)] {
      multiply(Product, al, static_cast<const E*>(a), A, static_cast<const E*>(b), B, be, static_cast<O*>(d), C);
    });
  };
  const auto run = [&]<class E, class T>(E e, T t) { is_wider ? run_as(e, t, t) : run_as(e, e, t); };
  switch (of(A).type) {
    case CUDA_R_64F: run(double(), double()); break;
    case CUDA_R_32F: run(float(), float()); break;
    case CUDA_R_16F: run(Half(), float()); break;
    case CUDA_R_16BF: run(BFloat16(), float()); break;
    default: fake::complain("matrices of a type that is not known here");
  }
  if ((of(A).type == CUDA_R_64F) != (of(product).type == CUDA_R_64F)) fake::complain("a product of another type");
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
