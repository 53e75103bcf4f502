// Replaces src/backends/cuda/vendor_tables.cpp: fills the tables with the fakes, which have the same names as the real
// functions.
#include "backends/cuda/vendor_tables.h"

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
