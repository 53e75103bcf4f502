#include "backends/cuda/cuda_stream.h"

namespace lockstep::gpu {

void LoadedKernels::load(const void* kernel) {
  if (loaded_.contains(kernel)) return;
  const std::scoped_lock issue_lock(issue_mutex_);
  cudaFuncAttributes attributes;  // asking for the attributes loads the kernel
  check(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes", device_);
  loaded_.insert(kernel);
}

bool is_capturing(const CudaStream& stream) {
  use_some_card(stream.card);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream.stream.get(), &status), "cudaStreamIsCapturing", stream.device);
  return status != cudaStreamCaptureStatusNone;
}

void record_event(const OwnedEvent& event, const CudaStream& stream) {
  check(cudaEventRecord(event.get(), stream.stream.get()), "cudaEventRecord", stream.device);
}

}  // namespace lockstep::gpu
