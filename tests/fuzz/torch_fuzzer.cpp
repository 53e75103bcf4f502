// libFuzzer on the reader of torch.save files: any bytes, as a file or as a pickle alone, are rejected by FormatError,
// or read as tensors that lie within the file. The sanitizers check the rest.
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include <lockstep/core/error.h>

#include "fuzz/limits.h"
#include "io/torch_file.h"
#include "support/memory_source.h"
#include "tensor/tensor_impl.h"

using namespace lockstep;

using fuzz::require;

namespace {

void read_file(std::string_view bytes) {
  lockstep::testing::MemorySource source(bytes);
  const safetensors::Contents contents =
      torch_file::read(source, {.verify = false, .on_skipped = [](const std::string&, const std::string&) {}});
  std::set<const Storage*> storages;
  std::size_t held = 0;
  for (const auto& [key, tensor] : contents.tensors) {
    const TensorImpl& impl = *tensor.impl();
    if (tensor.dim() > 0 && storages.insert(impl.storage).second) held += impl.storage->bytes;
    if (tensor.numel() == 0) continue;
    std::int64_t last = impl.offset;
    for (int dim = 0; dim < tensor.dim(); ++dim) last += (impl.sizes[dim] - 1) * impl.strides[dim];
    require(impl.offset >= 0 && std::size_t(last + 1) * size_of(tensor.dtype()) <= impl.storage->bytes,
            "a tensor within its storage");
  }
  require(held <= bytes.size(), "no more data than the file has");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  // A memo index may be anything below the value limit, which takes 16 MB.
  const fuzz::Limits limits(size, {.bytes = 24 << 20, .bytes_per_byte = 256});
  try {
    if (bytes.starts_with("PK"))
      read_file(bytes);
    else
      torch_file::parse_state("memory", bytes, 0);
  } catch (const FormatError& error) {
    require(error.offset <= size, "an offset within the file");
  }
  return 0;
}
