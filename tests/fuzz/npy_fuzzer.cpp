// libFuzzer on the reader of NumPy's arrays: any bytes are either refused by FormatError or read as an array that is as
// large as the file says. The sanitizers watch the rest.
#include <string_view>

#include <lockstep/core/error.h>

#include "data/readers.h"
#include "fuzz/limits.h"
#include "support/memory_source.h"

using namespace lockstep;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::Limits limits(size, {.bytes = 4 << 20, .bytes_per_byte = 16});
  lockstep::testing::MemorySource source(std::string_view(reinterpret_cast<const char*>(data), size));
  try {
    const Tensor array = data::read_npy(source);
    fuzz::require(std::size_t(array.numel()) * size_of(array.dtype()) <= size, "no more data than the file has");
  } catch (const FormatError& error) {
    fuzz::require(error.offset <= size, "an offset within the file");
  }
  return 0;
}
