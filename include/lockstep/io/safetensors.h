// Tensors in files: the safetensors format (https://github.com/huggingface/safetensors), which many programs read.
// State dicts written by PyTorch's torch.save can be loaded too.
//
//   save(model.state_dict(), "net.safetensors");
//   model.load_state_dict(load("net.safetensors"));
//
// save() adds checksums of the header and of each tensor, which other programs ignore (docs/files.md). The functions
// here may run on several threads at once.
#pragma once

#include <concepts>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include <lockstep/io/atomic_file.h>
#include <lockstep/tensor/state_dict.h>

namespace lockstep {

/// Texts about a file, by name. Names and texts are UTF-8.
using FileMetadata = std::map<std::string, std::string>;

/// Writes all tensors, on any device; waits for them. The file is written atomically and survives a power failure once
/// save() returns (see AtomicFile). A symbolic link is followed. Throws InvalidArgument for an undefined tensor, a text
/// that is not UTF-8, the key "__metadata__", or a name in `metadata` that begins with "lockstep.checksum.", and
/// IoError if the file cannot be written.
LOCKSTEP_API void save(const StateDict& state, const std::filesystem::path& path, const FileMetadata& metadata = {});

struct ReadOptions {
  Device device = {};  ///< The device of the loaded tensors.
  bool verify = true;  ///< Verify checksums, in files that have them.
  /// Read each tensor of a safetensors file when it is first used, as with DeferredInit: a copy reads it for the copy
  /// alone. So load_state_dict() of a model on GPUs holds one tensor at a time. The errors that load() would throw for
  /// the values come from the use. The file stays open, and must not be changed. Only on the CPU.
  bool deferred = false;
  Links links = Links::follow;  ///< Treatment of a path that is a symbolic link.
  /// Called for each value that is skipped because it is not a tensor, with its name in the file and its kind, such as
  /// "argparse.Namespace". Without this function, a line on standard error names the skipped values.
  std::function<void(const std::string& name, const std::string& what)> on_skipped = {};
};

/// Loads all tensors, with the dtypes of the file, in the order of its header. A folder stands for its files
/// *.safetensors, without folders in it: each tensor must be in one of them. The format of a file is detected by its
/// content: safetensors, or a state dict written by torch.save. For a state dict of torch.save, names of nested dicts
/// are joined with dots, numbers become 0-dim tensors, load_metadata() returns texts, and other objects are skipped
/// (ReadOptions::on_skipped, docs/files.md). The file is not trusted: a malformed file, dtypes that Lockstep does not
/// have, more than Shape::kMaxRank dimensions, and wrong checksums throw FormatError. A size in the file is checked
/// against the size of the file before memory is allocated. Throws IoError if the file cannot be read.
LOCKSTEP_API StateDict load(const std::filesystem::path& path, const ReadOptions& options = {});

/// Modules, optimizers, schedules: types with a state dict.
template <class T>
concept HasStateDict = requires(T& x, const T& as_const, const StateDict& state) {
  { as_const.state_dict() } -> std::same_as<StateDict>;
  x.load_state_dict(state);
};

/// Save and load the state dict of x: save(net, "net.safetensors"), load(net, "net.safetensors"). Throw as save(),
/// load() and x.load_state_dict() do.
template <HasStateDict T>
void save(const T& x, const std::filesystem::path& path, const FileMetadata& metadata = {}) {
  save(x.state_dict(), path, metadata);
}
template <HasStateDict T>
void load(T& x, const std::filesystem::path& path, const ReadOptions& options = {}) {
  x.load_state_dict(load(path, options));
}

/// Overloads for one tensor, named "tensor" in the file. load() makes x a handle to a new tensor, and throws
/// InvalidArgument unless the file has exactly one tensor.
template <std::derived_from<Tensor> T>  // a template, because save({}, path) saves an empty state dict
void save(const T& x, const std::filesystem::path& path, const FileMetadata& metadata = {}) {
  StateDict state;
  state.add("tensor", x);
  save(state, path, metadata);
}
LOCKSTEP_API void load(Tensor& x, const std::filesystem::path& path, const ReadOptions& options = {});

/// Reads and checks only the header, and returns its metadata; for a file of torch.save, returns its texts by name.
/// Throws as load() does.
LOCKSTEP_API FileMetadata load_metadata(const std::filesystem::path& path, const ReadOptions& options = {});

}  // namespace lockstep
