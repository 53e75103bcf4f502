// load(): detects the format of a file of tensors, and reads it.
#include <lockstep/io/safetensors.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "core/text.h"
#include "io/byte_source.h"
#include "io/path.h"
#include "io/safetensors_file.h"
#include "io/torch_file.h"

namespace lockstep {
namespace {

// The files of a large model, as `model-00001-of-00003.safetensors`.
StateDict load_folder(const std::filesystem::path& folder, const ReadOptions& options) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (at->path().extension() == ".safetensors" && !at->is_directory(error)) files.push_back(at->path());
  if (error) throw IoError("read the folder", folder.string(), error.value());
  if (files.empty())
    throw InvalidArgument(
        text("[load] expected a file, or a folder with files *.safetensors, got folder ", folder.string()));
  std::ranges::sort(files);
  StateDict all;
  for (const std::filesystem::path& file : files)
    for (const auto& [key, tensor] : load(file, options)) {
      if (all.contains(key))
        throw FormatError(file.string(), 0,
                          text("expected each tensor in one file of the folder, got \"", key, "\" again"));
      all.add(key, tensor);
    }
  return all;
}

}  // namespace

void load(Tensor& x, const std::filesystem::path& path, const ReadOptions& options) {
  const StateDict state = load(path, options);
  if (state.size() != 1)
    throw InvalidArgument(text("[load] expected a file of one tensor, got ", path.string(), " with ", state.size(),
                               ": read them with load(path)"));
  x = state.begin()->second;
}

StateDict load(const std::filesystem::path& path, const ReadOptions& options) {
  if (options.deferred && !options.device.is_cpu())
    throw InvalidArgument(text("[load] expected the CPU with deferred, got ", options.device,
                               ": load to the CPU, and copy each tensor with to(device)"));
  check_path("load", path);
  std::error_code error;
  if (const bool is_link = options.links == Links::refuse && std::filesystem::is_symlink(path, error);
      !is_link && std::filesystem::is_directory(path, error))
    return load_folder(path, options);
  const auto source = std::make_shared<FileSource>(path, options.links);
  if (torch_file::is_torch_file(*source)) return torch_file::read(*source, options).tensors;
  return (options.deferred ? safetensors::read_deferred(source, options) : safetensors::read(*source, options)).tensors;
}

FileMetadata load_metadata(const std::filesystem::path& path, const ReadOptions& options) {
  FileSource source(path, options.links);
  return torch_file::is_torch_file(source) ? torch_file::read_metadata(source, options)
                                           : safetensors::read_metadata(source, options);
}

}  // namespace lockstep
