// Tables of the functions of cuBLASLt, cuDNN and NCCL that Lockstep calls. Programs are not linked to these libraries,
// because each program would then load 1.2 GB at its start. To call one more function, add its name.
#pragma once

#include <cublasLt.h>
#include <cudnn_graph.h>
#include <nccl.h>

// clang-format off
#define LOCKSTEP_CUBLASLT_FUNCTIONS(X) \
  X(cublasLtGetStatusString) \
  X(cublasLtCreate) \
  X(cublasLtDestroy) \
  X(cublasLtMatmul) \
  X(cublasLtMatmulAlgoGetHeuristic) \
  X(cublasLtMatmulDescCreate) \
  X(cublasLtMatmulDescDestroy) \
  X(cublasLtMatmulDescSetAttribute) \
  X(cublasLtMatmulPreferenceCreate) \
  X(cublasLtMatmulPreferenceDestroy) \
  X(cublasLtMatmulPreferenceSetAttribute) \
  X(cublasLtMatrixLayoutCreate) \
  X(cublasLtMatrixLayoutDestroy) \
  X(cublasLtMatrixLayoutSetAttribute)

#define LOCKSTEP_CUDNN_FUNCTIONS(X) \
  X(cudnnGetVersion) \
  X(cudnnGetErrorString) \
  X(cudnnGetLastErrorString) \
  X(cudnnCreate) \
  X(cudnnDestroy) \
  X(cudnnSetStream) \
  X(cudnnBackendCreateDescriptor) \
  X(cudnnBackendDestroyDescriptor) \
  X(cudnnBackendFinalize) \
  X(cudnnBackendSetAttribute) \
  X(cudnnBackendGetAttribute) \
  X(cudnnBackendExecute)

#define LOCKSTEP_NCCL_FUNCTIONS(X) \
  X(ncclGetVersion) \
  X(ncclGetErrorString) \
  X(ncclGetLastError) \
  X(ncclGetUniqueId) \
  X(ncclCommInitRankConfig) \
  X(ncclCommGetAsyncError) \
  X(ncclCommFinalize) \
  X(ncclCommDestroy) \
  X(ncclCommAbort) \
  X(ncclGroupStart) \
  X(ncclGroupEnd) \
  X(ncclAllReduce) \
  X(ncclReduce) \
  X(ncclBroadcast) \
  X(ncclReduceScatter) \
  X(ncclAllGather) \
  X(ncclSend) \
  X(ncclRecv)
// clang-format on

namespace lockstep::gpu {

#define LOCKSTEP_MEMBER(function) decltype(&::function) function;
struct CublasLt {
  LOCKSTEP_CUBLASLT_FUNCTIONS(LOCKSTEP_MEMBER)
};

struct Cudnn {
  LOCKSTEP_CUDNN_FUNCTIONS(LOCKSTEP_MEMBER)
};

struct Nccl {
  LOCKSTEP_NCCL_FUNCTIONS(LOCKSTEP_MEMBER)
};
#undef LOCKSTEP_MEMBER

// The first call, on any thread, loads the library of the headers' major version. Throws BackendError if the library
// cannot be loaded; the next call then tries again. After one successful call, calls do not throw.
const CublasLt& cublas_lt();
const Cudnn& cudnn();
const Nccl& nccl();

/// Destroys a handle by a function of a table. Never throws, because the table was filled before.
template <auto table, auto destroy>
struct DestroyBy {
  void operator()(auto* handle) const noexcept { static_cast<void>((table().*destroy)(handle)); }
};

}  // namespace lockstep::gpu
