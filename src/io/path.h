// What every function that is given the path of a file asks of it.
#pragma once

#include <filesystem>

namespace lockstep {

/// Throws InvalidArgument naming `op` for a path with a byte 0, at which the operating system would cut it off.
void check_path(const char* op, const std::filesystem::path& path);

}  // namespace lockstep
