// CUDA GPUs as a Backend, without a word of CUDA: all that the registry knows of them. A build without CUDA has the
// same functions (src/runtime/without_cuda.cpp), which find nothing.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/backend.h"

namespace lockstep {

/// What the driver answers. Not an error by itself: a machine without one has no cards.
struct CudaCards {
  int count = 0;
  int code = 0;      ///< CUDA's, why there are none: 34, 35 or 100; 0 if it was not CUDA that said so.
  std::string text;  ///< The same in words.
};

/// Throws BackendError if there is a driver that cannot work, or that is too old.
CudaCards find_cuda_cards();

struct CudaOptions {
  std::vector<int> cards;       ///< Of each device; a card may stand there several times, and is shared then.
  std::size_t arena_bytes = 0;  ///< Taken on each device at its first allocation, and never more; 0: as it is needed.
  bool tf32 = false;            ///< Round the factors of float32 products to TF32.
  bool deterministic = true;    ///< Repeated runs give the same bits: NCCL's NVLS off.
};

/// Throws InvalidArgument if a card is not there, or if launches block and there are several cards. With several cards
/// it sets environment variables that only NCCL's environment can say, and says so on standard error.
std::shared_ptr<Backend> make_cuda_backend(const CudaOptions& options);

}  // namespace lockstep
