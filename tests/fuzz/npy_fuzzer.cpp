// libFuzzer on the reader of NumPy arrays: any bytes are rejected by FormatError, or read as an array of the size in
// the file. The sanitizers check the rest.
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
