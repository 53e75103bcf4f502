// A check for all functions that take the path of a file.
#pragma once

#include <filesystem>

#include <lockstep/core/error.h>

#include "core/text.h"

namespace lockstep {

/// Throws InvalidArgument naming `op` for a path with a null byte, where the operating system would truncate it.
inline void check_path(const char* op, const std::filesystem::path& path) {
  const std::string& bytes = path.native();
  if (const std::size_t zero = bytes.find('\0'); zero != bytes.npos)
    throw InvalidArgument(text('[', op, "] expected a path without a byte 0, got one after ",
                               std::filesystem::path(bytes.substr(0, zero))));
}

}  // namespace lockstep
