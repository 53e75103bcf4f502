#include <lockstep/core/error.h>

#include "backends/cuda/call.h"
#include "backends/cuda/cuda_backend.h"
#include "core/text.h"

namespace lockstep {
namespace {

// CUDA's encoding: 13000 is 13.0.
std::string version(int number) { return text(number / 1000, '.', number % 1000 / 10); }

// Throws if the driver is older than the toolkit. (CUDA's error code is the same as if there were no driver.)
void refuse_old_driver() {
  int driver = 0, toolkit = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) return;
  static_cast<void>(cudaRuntimeGetVersion(&toolkit));
  throw BackendError("cudaGetDeviceCount", int(cudaErrorInsufficientDriver), "cuda",
                     text("expected a driver for CUDA ", version(toolkit), " or newer, got one for CUDA ",
                          version(driver), ". What to do: install a newer driver, build Lockstep with CUDA ",
                          version(driver), ", or set LOCKSTEP_DEVICES=none to go without GPUs"));
}

}  // namespace

CudaCards find_cuda_cards() {
  int count = 0;  // initialized because CUDA leaves it unchanged on failure
  const cudaError_t result = cudaGetDeviceCount(&count);
  if (result == cudaSuccess && count > 0) return {count, 0, ""};
  cudaGetLastError();
  if (result == cudaErrorInsufficientDriver) refuse_old_driver();
  if (result != cudaSuccess && result != cudaErrorInsufficientDriver && result != cudaErrorNoDevice &&
      result != cudaErrorStubLibrary)
    gpu::check(result, "cudaGetDeviceCount", -1);
  const cudaError_t reason = result == cudaSuccess ? cudaErrorNoDevice : result;
  return {0, int(reason), cudaGetErrorString(reason)};
}

}  // namespace lockstep
