// Fills the tables from the vendor's libraries. Tests with fakes of these libraries replace this file.
#include "backends/cuda/vendor_tables.h"

#include "backends/cuda/vendor_library.h"
#include "core/text.h"

#ifndef LOCKSTEP_CUDA_LIBRARY_FOLDER  // the CUDA toolkit's folder at configuration
#define LOCKSTEP_CUDA_LIBRARY_FOLDER ""
#endif

namespace lockstep::gpu {
namespace {

#define LOCKSTEP_LOAD(function) library.load_symbol(table.function, #function);

CublasLt load_cublas_lt() {
  const VendorLibrary library({.product = text("cuBLAS for CUDA ", CUBLAS_VER_MAJOR),
                               .file = text("libcublasLt.so.", CUBLAS_VER_MAJOR),
                               .folder = LOCKSTEP_CUDA_LIBRARY_FOLDER});
  CublasLt table = {};
  LOCKSTEP_CUBLASLT_FUNCTIONS(LOCKSTEP_LOAD)
  return table;
}

Cudnn load_cudnn() {
  const VendorLibrary library({.product = text("a recent cuDNN ", CUDNN_MAJOR),
                               .file = text("libcudnn.so.", CUDNN_MAJOR),
                               .folder = LOCKSTEP_CUDA_LIBRARY_FOLDER});
  Cudnn table = {};
  LOCKSTEP_CUDNN_FUNCTIONS(LOCKSTEP_LOAD)
  return table;
}

Nccl load_nccl() {
  const VendorLibrary library({.product = text("a recent NCCL ", NCCL_MAJOR),
                               .file = text("libnccl.so.", NCCL_MAJOR),
                               .folder = LOCKSTEP_CUDA_LIBRARY_FOLDER});
  Nccl table = {};
  LOCKSTEP_NCCL_FUNCTIONS(LOCKSTEP_LOAD)
  return table;
}

#undef LOCKSTEP_LOAD

}  // namespace

const CublasLt& cublas_lt() {
  static const CublasLt table = load_cublas_lt();
  return table;
}

const Cudnn& cudnn() {
  static const Cudnn table = load_cudnn();
  return table;
}

const Nccl& nccl() {
  static const Nccl table = load_nccl();
  return table;
}

}  // namespace lockstep::gpu
