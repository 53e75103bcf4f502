// Convolutions on the host, with a workspace whose parts may lie apart: so tests see what writes beside its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "runtime/backend.h"

namespace lockstep::host {

/// What a convolution writes besides its result. Bytes are multiples of 64.
struct ConvolutionParts {
  std::int64_t pieces = 1;  ///< Of the batch. Each has scratch of its own.
  std::size_t scratch_bytes = 0;
  std::int64_t weights = 0;  ///< The weight as oneDNN wants it; or of its gradient one for each piece.
  std::size_t weight_bytes = 0;

  std::size_t bytes() const { return scratch_bytes * std::size_t(pieces) + weight_bytes * std::size_t(weights); }
};

/// Where the first of these parts lie, aligned to 64 bytes, and how many bytes one lies behind the other.
struct ConvolutionRoom {
  std::byte *scratch, *weights;
  std::size_t scratch_pitch, weight_pitch;
};

/// Nothing where the operation is declined, by its description alone.
std::optional<ConvolutionParts> convolution_parts(const FusedOp& op);
void run_convolution(const KernelContext& context, const FusedOp& op, const ConvolutionRoom& room);

}  // namespace lockstep::host
