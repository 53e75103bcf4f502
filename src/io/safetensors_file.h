// Reads and writes whole safetensors files, from any ByteSource and to any sink.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include <lockstep/io/safetensors.h>

#include "io/byte_source.h"

namespace lockstep::safetensors {

struct Contents {
  StateDict tensors;
  FileMetadata metadata;
};
Contents read(ByteSource& source, const ReadOptions& options);
/// Each tensor, on the CPU, is read when it is first used (tensor/deferred_memory.h): several threads may then call
/// source->read().
Contents read_deferred(const std::shared_ptr<ByteSource>& source, const ReadOptions& options);
FileMetadata read_metadata(ByteSource& source, const ReadOptions& options);
/// Throws the errors of read(), but keeps no data.
void verify(ByteSource& source);

/// Calls sink(offset, data, bytes) for each piece of the file; the header, which has the tensors' checksums, comes
/// last. Checks all arguments before the first call.
using Sink = std::function<void(std::uint64_t offset, const void* data, std::size_t bytes)>;
void write(const StateDict& state, const FileMetadata& metadata, const Sink& sink);

}  // namespace lockstep::safetensors
