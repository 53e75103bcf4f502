// Safetensors files in memory, made by hand.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "io/safetensors_file.h"
#include "support/memory_source.h"

namespace lockstep::testing {

inline StateDict read(std::string_view bytes) {
  MemorySource source(bytes);
  return safetensors::read(source, {}).tensors;
}

inline std::string written(const StateDict& state, const FileMetadata& metadata = {}) {
  std::string bytes;
  safetensors::write(state, metadata, [&](std::uint64_t offset, const void* data, std::size_t count) {
    bytes.resize(std::max(bytes.size(), std::size_t(offset) + count));
    std::memcpy(bytes.data() + offset, data, count);
  });
  return bytes;
}

/// A file of that header, with its length before it and the data after it.
inline std::string file_of(std::string_view json, std::string_view data = {}) {
  const std::uint64_t length = json.size();
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  return bytes.append(json).append(data);
}

}  // namespace lockstep::testing
