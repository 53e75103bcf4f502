// In place of src/runtime/cuda/vendor_tables.cpp: the fakes' functions, which have the names of those that they
// replace.
#include "runtime/cuda/vendor_tables.h"

namespace lockstep::gpu {

const CublasLt& cublas_lt() {
  static constexpr CublasLt kTable{
      .get_version = cublasLtGetVersion,
      .get_status_string = cublasLtGetStatusString,
      .create = cublasLtCreate,
      .destroy = cublasLtDestroy,
      .matmul = cublasLtMatmul,
      .matmul_algo_get_heuristic = cublasLtMatmulAlgoGetHeuristic,
      .matmul_desc_create = cublasLtMatmulDescCreate,
      .matmul_desc_destroy = cublasLtMatmulDescDestroy,
      .matmul_desc_set_attribute = cublasLtMatmulDescSetAttribute,
      .matmul_preference_create = cublasLtMatmulPreferenceCreate,
      .matmul_preference_destroy = cublasLtMatmulPreferenceDestroy,
      .matmul_preference_set_attribute = cublasLtMatmulPreferenceSetAttribute,
      .matrix_layout_create = cublasLtMatrixLayoutCreate,
      .matrix_layout_destroy = cublasLtMatrixLayoutDestroy,
      .matrix_layout_set_attribute = cublasLtMatrixLayoutSetAttribute,
  };
  return kTable;
}

const Nccl& nccl() {
  static constexpr Nccl kTable{
      .get_version = ncclGetVersion,
      .get_error_string = ncclGetErrorString,
      .get_last_error = ncclGetLastError,
      .get_unique_id = ncclGetUniqueId,
      .comm_init_rank_config = ncclCommInitRankConfig,
      .comm_get_async_error = ncclCommGetAsyncError,
      .comm_finalize = ncclCommFinalize,
      .comm_destroy = ncclCommDestroy,
      .comm_abort = ncclCommAbort,
      .group_start = ncclGroupStart,
      .group_end = ncclGroupEnd,
      .all_reduce = ncclAllReduce,
      .reduce = ncclReduce,
      .broadcast = ncclBroadcast,
      .reduce_scatter = ncclReduceScatter,
      .all_gather = ncclAllGather,
      .send = ncclSend,
      .recv = ncclRecv,
  };
  return kTable;
}

}  // namespace lockstep::gpu
