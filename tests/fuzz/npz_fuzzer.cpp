// libFuzzer on the reader of NumPy archives: any bytes are rejected by FormatError, or read as arrays with no more data
// than the file. The sanitizers check the rest.
#include <string>
#include <string_view>

#include <lockstep/core/error.h>

#include "data/readers.h"
#include "fuzz/limits.h"
#include "support/memory_source.h"

using namespace lockstep;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::Limits limits(size, {.bytes = 4 << 20, .bytes_per_byte = 64});
  lockstep::testing::MemorySource source(std::string_view(reinterpret_cast<const char*>(data), size));
  const ReadOptions options = {.verify = false, .on_skipped = [](const std::string&, const std::string&) {}};
  try {
    std::size_t bytes = 0;
    for (const auto& [key, array] : data::read_npz(source, options))
      bytes += std::size_t(array.numel()) * size_of(array.dtype());
    fuzz::require(bytes <= size, "no more data than the file has");
  } catch (const FormatError& error) {
    fuzz::require(error.offset <= size, "an offset within the file");
  }
  return 0;
}
