// Replaces src/backends/cuda in a build without CUDA.
#include <lockstep/core/error.h>

#include "backends/cuda/cuda_backend.h"

namespace lockstep {

CudaCards find_cuda_cards() { return {0, 0, "this build of Lockstep is without CUDA (LOCKSTEP_CUDA)"}; }

std::shared_ptr<Backend> make_cuda_backend(const CudaOptions&) {
  throw InvalidArgument("[cuda] expected a build with CUDA, got one without");
}

}  // namespace lockstep
