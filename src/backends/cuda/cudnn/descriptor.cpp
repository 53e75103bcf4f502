#include "backends/cuda/cudnn/descriptor.h"

#include <algorithm>
#include <array>
#include <string>

#include <lockstep/core/error.h>

#include "core/text.h"

namespace lockstep::gpu {

void check(cudnnStatus_t result, const char* api, int device) {
  if (result == CUDNN_STATUS_SUCCESS) return;
  std::array<char, 1024> words = {};
  cudnn().cudnnGetLastErrorString(words.data(), words.size());
  throw BackendError(api, int(result), text("cuda:", device),
                     text(cudnn().cudnnGetErrorString(result), words[0] ? ": " : "", words.data()));
}

CudnnDescriptor::CudnnDescriptor(cudnnBackendDescriptorType_t type, int device) : device_(device) {
  cudnnBackendDescriptor_t made = nullptr;
  check(cudnn().cudnnBackendCreateDescriptor(type, &made), "cudnnBackendCreateDescriptor", device);
  owned_.reset(made);
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) {
  const cudnnBackendDescriptor_t descriptor = value.get();
  set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &descriptor);
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
                          const void* values) {
  check(cudnn().cudnnBackendSetAttribute(get(), name, type, count, values), "cudnnBackendSetAttribute", device_);
}

// cuDNN's codes 2000 to 3999 mean that the description is wrong or not supported: returns false. Throws for others.
bool CudnnDescriptor::finalize() {
  const cudnnStatus_t result = cudnn().cudnnBackendFinalize(get());
  if (result >= CUDNN_STATUS_BAD_PARAM && int(result) < 4000) return false;
  check(result, "cudnnBackendFinalize", device_);
  return true;
}

bool CudnnDescriptor::try_finalize() noexcept { return cudnn().cudnnBackendFinalize(get()) == CUDNN_STATUS_SUCCESS; }

void CudnnDescriptor::get(cudnnBackendAttributeName_t name, CudnnDescriptor& value) const {
  cudnnBackendDescriptor_t descriptor = value.get();
  get(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &descriptor);
}

std::vector<CudnnDescriptor> CudnnDescriptor::get_all(cudnnBackendAttributeName_t name,
                                                      cudnnBackendDescriptorType_t type) const {
  const std::int64_t count = get(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr);
  std::vector<CudnnDescriptor> descriptors;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < count; ++i) raw.push_back(descriptors.emplace_back(type, device_).get());
  if (count == 0) return descriptors;
  const std::int64_t filled = get(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, raw.data());
  while (std::int64_t(descriptors.size()) > filled) descriptors.pop_back();
  return descriptors;
}

std::int64_t CudnnDescriptor::get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t most,
                                  void* values) const {
  std::int64_t count = 0;
  check(cudnn().cudnnBackendGetAttribute(get(), name, type, most, &count, values), "cudnnBackendGetAttribute", device_);
  return most == 0 ? count : std::min(count, most);
}

}  // namespace lockstep::gpu
