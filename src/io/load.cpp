// load(): detects the format of a file of tensors, and reads it.
#include <lockstep/io/safetensors.h>

#include "core/text.h"
#include "io/byte_source.h"
#include "io/safetensors_file.h"
#include "io/torch_file.h"

namespace lockstep {

void load(Tensor& x, const std::filesystem::path& path, const ReadOptions& options) {
  const StateDict state = load(path, options);
  if (state.size() != 1)
    throw InvalidArgument(text("[load] expected a file of one tensor, got ", path.string(), " with ", state.size(),
                               ": read them with load(path)"));
  x = state.begin()->second;
}

StateDict load(const std::filesystem::path& path, const ReadOptions& options) {
  FileSource source(path, options.links);
  return torch_file::is_torch_file(source) ? torch_file::read(source, options).tensors
                                           : safetensors::read(source, options).tensors;
}

FileMetadata load_metadata(const std::filesystem::path& path, const ReadOptions& options) {
  FileSource source(path, options.links);
  return torch_file::is_torch_file(source) ? torch_file::read_metadata(source, options)
                                           : safetensors::read_metadata(source, options);
}

}  // namespace lockstep
