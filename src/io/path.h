// A check for all functions that take the path of a file.
#pragma once

#include <filesystem>

namespace lockstep {

/// Throws InvalidArgument naming `op` for a path with a null byte, where the operating system would truncate it.
void check_path(const char* op, const std::filesystem::path& path);

}  // namespace lockstep
