// CUDA GPUs as a Backend. The registry includes only this header, which includes no header of CUDA. In a build without
// CUDA the same functions (src/backends/without_cuda.cpp) find no cards.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/backend.h"

namespace lockstep {

/// The number of cards that the driver reports. A machine without a driver has no cards; that is not an error.
struct CudaCards {
  int count = 0;
  int code = 0;      ///< CUDA's code if there are none: 34, 35 or 100; 0 if the reason is not CUDA's.
  std::string text;  ///< The reason in words.
};

/// Throws BackendError if the driver does not work, or is too old.
CudaCards find_cuda_cards();

struct CudaOptions {
  std::vector<int> cards;       ///< The card of each device; devices with the same card share it.
  std::size_t arena_bytes = 0;  ///< All memory of a device, allocated at once at its first use; 0: as needed.
  bool tf32 = false;            ///< Round the factors of float32 products to TF32.
  bool deterministic = true;    ///< Repeated runs give the same bits: disables NCCL's NVLS.
};

/// Throws InvalidArgument if a card does not exist, or if CUDA_LAUNCH_BLOCKING is on with several cards. With several
/// cards it sets environment variables for options that NCCL reads only there, and reports them on standard error.
std::shared_ptr<Backend> make_cuda_backend(const CudaOptions& options);

}  // namespace lockstep
