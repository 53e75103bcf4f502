#include "io/path.h"

#include <lockstep/core/error.h>

#include "core/text.h"

namespace lockstep {

void check_path(const char* op, const std::filesystem::path& path) {
  const std::string& bytes = path.native();
  if (const std::size_t zero = bytes.find('\0'); zero != bytes.npos)
    throw InvalidArgument(text('[', op, "] expected a path without a byte 0, got one after ",
                               std::filesystem::path(bytes.substr(0, zero))));
}

}  // namespace lockstep
