// NumPy's arrays, from any bytes.
#pragma once

#include <lockstep/io/safetensors.h>

#include "io/byte_source.h"

namespace lockstep::data {

/// Throw as read_npy() and read_npz() of lockstep/data/arrays.h.
Tensor read_npy(ByteSource& source);
StateDict read_npz(ByteSource& source, const ReadOptions& options);

}  // namespace lockstep::data
