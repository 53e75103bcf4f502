// Convolutions on the host. The parts of the workspace need not be adjacent, so that tests can put guard bytes between
// them and detect out-of-bounds writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "runtime/backend.h"

namespace lockstep::host {

/// The parts of a convolution's workspace. Bytes are multiples of 64.
struct ConvolutionParts {
  std::int64_t pieces = 1;  ///< Pieces of the batch. Each has its own scratch.
  std::size_t scratch_bytes = 0;
  std::int64_t weights = 0;  ///< Copies of the weight in oneDNN's layout; for the weight gradient, one copy per piece.
  std::size_t weight_bytes = 0;

  std::size_t bytes() const { return scratch_bytes * std::size_t(pieces) + weight_bytes * std::size_t(weights); }
};

/// The room for a ConvolutionParts: the addresses of the first scratch and the first weight, aligned to 64 bytes, and
/// the distances in bytes from one scratch to the next, and from one weight to the next.
struct ConvolutionRoom {
  std::byte *scratch, *weights;
  std::size_t scratch_pitch, weight_pitch;
};

/// Returns nullopt if the host declines the operation, which depends on the operation's description alone.
std::optional<ConvolutionParts> convolution_parts(const FusedOp& op);
void run_convolution(const KernelContext& context, const FusedOp& op, const ConvolutionRoom& room);

}  // namespace lockstep::host
