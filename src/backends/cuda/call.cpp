#include "backends/cuda/call.h"

#include <lockstep/core/error.h>

#include "backends/cuda/vendor_tables.h"
#include "core/text.h"
#include "runtime/reported_failures.h"

namespace lockstep::gpu {

namespace {

std::string name_of(int device) { return device < 0 ? "cuda" : text("cuda:", device); }

[[noreturn]] void fail(cudaError_t result, const char* api, const std::string& where) {
  cudaGetLastError();  // clears the error; called once, because without a driver the error never clears
  ++reported_failures;
  const char* const advice =
      result == cudaErrorNoKernelImageForDevice
          ? ". What to do: configure Lockstep with -DCMAKE_CUDA_ARCHITECTURES=native, or that of this GPU"
          : "";
  throw BackendError(api, int(result), where, text(cudaGetErrorString(result), advice));
}

}  // namespace

void check(cudaError_t result, const char* api, int device) {
  if (result != cudaSuccess) fail(result, api, name_of(device));
}

void check_card(cudaError_t result, const char* api, int card) {
  if (result != cudaSuccess) fail(result, api, text("card ", card));
}

void check(cublasStatus_t result, const char* api, int device) {
  if (result == CUBLAS_STATUS_SUCCESS) return;
  throw BackendError(api, int(result), name_of(device), cublas_lt().cublasLtGetStatusString(result));
}

namespace {

// Returns false for the expected error, and throws for others.
bool is_free_of(cudaError_t expected, cudaError_t result, const char* api, int device) {
  if (result == expected) {
    cudaGetLastError();
    return false;
  }
  check(result, api, device);
  return true;
}

}  // namespace

bool has_ended(cudaStream_t stream, int device) {
  return is_free_of(cudaErrorNotReady, cudaStreamQuery(stream), "cudaStreamQuery", device);
}

bool has_ended(cudaEvent_t event, int device) {
  return is_free_of(cudaErrorNotReady, cudaEventQuery(event), "cudaEventQuery", device);
}

bool has_room(cudaError_t allocation, const char* api, int device) {
  return is_free_of(cudaErrorMemoryAllocation, allocation, api, device);
}

namespace {

thread_local bool has_used_a_card = false;

}  // namespace

void use_card(int card) {
  int current = -1;  // read from CUDA each time, because the program may have called cudaSetDevice itself
  if (has_used_a_card && cudaGetDevice(&current) == cudaSuccess && current == card) return;
  check_card(cudaSetDevice(card), "cudaSetDevice", card);
  has_used_a_card = true;
}

void use_some_card(int card) {
  if (!has_used_a_card) use_card(card);
}

OwnedStream make_stream(int device, int priority) {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority), "cudaStreamCreateWithPriority", device);
  return OwnedStream(stream);
}

OwnedEvent make_event(int device) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags", device);
  return OwnedEvent(event);
}

OwnedMemory make_memory(int device, std::size_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes), "cudaMalloc", device);
  return OwnedMemory(memory);
}

}  // namespace lockstep::gpu
