// In place of src/runtime/cuda/vendor_tables.cpp: the fakes' functions, which have the names of those that they
// replace.
#include "runtime/cuda/vendor_tables.h"

#include <lockstep/core/error.h>

#include "cuda/fake/fake_cuda.h"

namespace lockstep::gpu {

#define LOCKSTEP_ADDRESS(function) .function = ::function,

const CublasLt& cublas_lt() {
  static constexpr CublasLt kTable{LOCKSTEP_CUBLASLT_FUNCTIONS(LOCKSTEP_ADDRESS)};
  return kTable;
}

const Cudnn& cudnn() {
  static constexpr Cudnn kTable{LOCKSTEP_CUDNN_FUNCTIONS(LOCKSTEP_ADDRESS)};
  if (!fake::machine().cudnn) throw BackendError("dlopen", 0, "cuda", "libcudnn.so.9: no such file");
  return kTable;
}

const Nccl& nccl() {
  static constexpr Nccl kTable{LOCKSTEP_NCCL_FUNCTIONS(LOCKSTEP_ADDRESS)};
  return kTable;
}

#undef LOCKSTEP_ADDRESS

}  // namespace lockstep::gpu
