// Whole safetensors files, over any source and sink of bytes.
#pragma once

#include <cstddef>
#include <functional>

#include <lockstep/io/safetensors.h>

#include "io/byte_source.h"

namespace lockstep::safetensors {

struct Contents {
  StateDict tensors;
  Metadata metadata;
};
Contents read(ByteSource& source, Device device);
Metadata read_metadata(ByteSource& source);

/// Calls sink(data, bytes) for one piece after the other. Checks all arguments before the first call.
using Sink = std::function<void(const void* data, std::size_t bytes)>;
void write(const StateDict& state, const Metadata& metadata, const Sink& sink);

}  // namespace lockstep::safetensors
