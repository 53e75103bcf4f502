// Tensors in files: the safetensors format (https://github.com/huggingface/safetensors), which many programs share.
// State dicts that PyTorch's torch.save wrote are read too.
//
//   save(model.state_dict(), "net.safetensors");
//   model.load_state_dict(load("net.safetensors"));
//
// What save() writes carries checksums of its header and of each tensor, where other programs ignore them
// (docs/files.md). Functions here may run on several threads at once.
#pragma once

#include <concepts>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include <lockstep/io/atomic_file.h>
#include <lockstep/tensor/state_dict.h>

namespace lockstep {

/// Texts about a file, by name: any UTF-8.
using FileMetadata = std::map<std::string, std::string>;

/// Writes all tensors, from wherever they are; waits for them. The file appears whole or not at all, and survives a
/// loss of power once save() returns (see AtomicFile). A symbolic link is followed. Throws InvalidArgument for an
/// undefined tensor, a text that is not UTF-8, the key "__metadata__", or a name in `metadata` that begins with
/// "lockstep.checksum.", and IoError where the file cannot be written.
LOCKSTEP_API void save(const StateDict& state, const std::filesystem::path& path, const FileMetadata& metadata = {});

struct ReadOptions {
  Device device = {};           ///< Where the tensors are made.
  bool verify = true;           ///< Hold what is read against the checksums, in files that have them.
  Links links = Links::follow;  ///< Where the path is one.
  /// Called for each value that is left out because no tensor can hold it: with its name in the file and with what it
  /// is, such as "argparse.Namespace". Without this function, a line on standard error names them.
  std::function<void(const std::string& name, const std::string& what)> left_out = {};
};

/// All tensors, under the dtypes they have in the file, in the order of its header. The format is known by the content:
/// safetensors, or what torch.save wrote of a state dict: there names of nested dicts are joined with dots, numbers
/// become tensors of no dimensions, texts are left to load_metadata(), and other objects are left out
/// (ReadOptions::left_out, docs/files.md). The file is not trusted: what breaks the format, tensors of dtypes that
/// Lockstep does not hold, those of more than Shape::kMaxRank dimensions, and what does not fit its checksum throw
/// FormatError. Nothing is allocated by a size in the file before it has been held against the size of the file. Throws
/// IoError where the file cannot be read.
LOCKSTEP_API StateDict load(const std::filesystem::path& path, const ReadOptions& options = {});

/// A module, an optimizer, a schedule: what has a state dict.
template <class T>
concept HasStateDict = requires(T& x, const T& as_const, const StateDict& state) {
  { as_const.state_dict() } -> std::same_as<StateDict>;
  x.load_state_dict(state);
};

/// save(net, "net.safetensors") and load(net, "net.safetensors"): its state dict. Throw as save(), load() and its
/// load_state_dict() do.
template <HasStateDict T>
void save(const T& x, const std::filesystem::path& path, const FileMetadata& metadata = {}) {
  save(x.state_dict(), path, metadata);
}
template <HasStateDict T>
void load(T& x, const std::filesystem::path& path, const ReadOptions& options = {}) {
  x.load_state_dict(load(path, options));
}

/// The same of one tensor, which the file has under the name "tensor". load() makes x a handle to a new one, and throws
/// InvalidArgument for a file that has not just one.
template <std::derived_from<Tensor> T>  // not deduced from {}, which is an empty state dict
void save(const T& x, const std::filesystem::path& path, const FileMetadata& metadata = {}) {
  StateDict state;
  state.add("tensor", x);
  save(state, path, metadata);
}
LOCKSTEP_API void load(Tensor& x, const std::filesystem::path& path, const ReadOptions& options = {});

/// Reads and checks the header alone; of a file of torch.save, gives the texts by their names. Throws as load() does.
LOCKSTEP_API FileMetadata load_metadata(const std::filesystem::path& path, const ReadOptions& options = {});

}  // namespace lockstep
