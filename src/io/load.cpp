// Reading a file of tensors, in whichever of the formats it is.
#include <lockstep/io/safetensors.h>

#include "io/byte_source.h"
#include "io/safetensors_file.h"
#include "io/torch_file.h"

namespace lockstep {

StateDict load(const std::filesystem::path& path, const ReadOptions& options) {
  FileSource source(path, options.links);
  return torch_file::is_torch_file(source) ? torch_file::read(source, options).tensors
                                           : safetensors::read(source, options).tensors;
}

Metadata load_metadata(const std::filesystem::path& path, const ReadOptions& options) {
  FileSource source(path, options.links);
  return torch_file::is_torch_file(source) ? torch_file::read_metadata(source, options)
                                           : safetensors::read_metadata(source, options);
}

}  // namespace lockstep
