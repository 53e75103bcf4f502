// Filled from the vendor's libraries. Where these are replaced by others of the same functions, so is this file.
#include "runtime/cuda/vendor_tables.h"

#include "core/text.h"
#include "runtime/cuda/vendor_library.h"

#ifndef LOCKSTEP_CUDA_LIBRARY_FOLDER  // of the CUDA toolkit, where it was when this was configured
#define LOCKSTEP_CUDA_LIBRARY_FOLDER ""
#endif

namespace lockstep::gpu {
namespace {

CublasLt load_cublas_lt() {
  const VendorLibrary library({.product = text("cuBLAS for CUDA ", CUBLAS_VER_MAJOR),
                               .file = text("libcublasLt.so.", CUBLAS_VER_MAJOR),
                               .folder = LOCKSTEP_CUDA_LIBRARY_FOLDER});
  CublasLt table = {};
  library.find(table.get_version, "cublasLtGetVersion");
  library.find(table.get_status_string, "cublasLtGetStatusString");
  library.find(table.create, "cublasLtCreate");
  library.find(table.destroy, "cublasLtDestroy");
  library.find(table.matmul, "cublasLtMatmul");
  library.find(table.matmul_algo_get_heuristic, "cublasLtMatmulAlgoGetHeuristic");
  library.find(table.matmul_desc_create, "cublasLtMatmulDescCreate");
  library.find(table.matmul_desc_destroy, "cublasLtMatmulDescDestroy");
  library.find(table.matmul_desc_set_attribute, "cublasLtMatmulDescSetAttribute");
  library.find(table.matmul_preference_create, "cublasLtMatmulPreferenceCreate");
  library.find(table.matmul_preference_destroy, "cublasLtMatmulPreferenceDestroy");
  library.find(table.matmul_preference_set_attribute, "cublasLtMatmulPreferenceSetAttribute");
  library.find(table.matrix_layout_create, "cublasLtMatrixLayoutCreate");
  library.find(table.matrix_layout_destroy, "cublasLtMatrixLayoutDestroy");
  library.find(table.matrix_layout_set_attribute, "cublasLtMatrixLayoutSetAttribute");
  return table;
}

Nccl load_nccl() {
  const VendorLibrary library({.product = text("a recent NCCL ", NCCL_MAJOR),
                               .file = text("libnccl.so.", NCCL_MAJOR),
                               .folder = LOCKSTEP_CUDA_LIBRARY_FOLDER});
  Nccl table = {};
  library.find(table.get_version, "ncclGetVersion");
  library.find(table.get_error_string, "ncclGetErrorString");
  library.find(table.get_last_error, "ncclGetLastError");
  library.find(table.get_unique_id, "ncclGetUniqueId");
  library.find(table.comm_init_rank_config, "ncclCommInitRankConfig");
  library.find(table.comm_get_async_error, "ncclCommGetAsyncError");
  library.find(table.comm_finalize, "ncclCommFinalize");
  library.find(table.comm_destroy, "ncclCommDestroy");
  library.find(table.comm_abort, "ncclCommAbort");
  library.find(table.group_start, "ncclGroupStart");
  library.find(table.group_end, "ncclGroupEnd");
  library.find(table.all_reduce, "ncclAllReduce");
  library.find(table.reduce, "ncclReduce");
  library.find(table.broadcast, "ncclBroadcast");
  library.find(table.reduce_scatter, "ncclReduceScatter");
  library.find(table.all_gather, "ncclAllGather");
  library.find(table.send, "ncclSend");
  library.find(table.recv, "ncclRecv");
  return table;
}

}  // namespace

const CublasLt& cublas_lt() {
  static const CublasLt table = load_cublas_lt();
  return table;
}

const Nccl& nccl() {
  static const Nccl table = load_nccl();
  return table;
}

}  // namespace lockstep::gpu
