// Files of torch.save: a zip file with a pickle of the values and an entry for each storage. What the pickle says
// becomes a list of named tensors and numbers (torch_state.cpp, which knows no files), then tensors (torch_file.cpp).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "io/left_out.h"
#include "io/safetensors_file.h"

namespace lockstep::torch_file {

/// The memory behind one or more tensors: the entry data/KEY of the file.
struct StorageEntry {
  std::string key;
  DType dtype = kFloat32;
  std::uint64_t elements = 0;
  std::uint64_t noticed_at = 0;
};

struct TensorEntry {
  std::size_t storage = 0;  ///< Position in State::storages.
  std::int64_t offset = 0;  ///< In elements.
  Shape sizes, strides;
};

struct Entry {
  std::string name;
  std::variant<TensorEntry, bool, std::int64_t, double> value;
};

/// Names of nested dicts and lists are joined with dots: "model.fc.weight", "optimizer.param_groups.0.lr".
struct State {
  std::vector<StorageEntry> storages;
  std::vector<Entry> entries;
  FileMetadata texts;
  LeftOut left_out;
};

/// Of the pickle that begins at byte `begin` of the file. Every tensor lies within its storage, as far as it is as
/// large as the pickle says. Throws FormatError(file, ...).
State parse_state(const std::string& file, std::string_view pickle, std::uint64_t begin);

/// Whether the file is of torch.save, by its first bytes: zip files, and those that PyTorch wrote before 1.6.
bool is_torch_file(ByteSource& source);
/// Tensors that share memory in the file share it here. Throws FormatError.
safetensors::Contents read(ByteSource& source, const ReadOptions& options);
FileMetadata read_metadata(ByteSource& source, const ReadOptions& options);

}  // namespace lockstep::torch_file
