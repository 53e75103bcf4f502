// Files of torch.save: a zip file with a pickle of the values and an entry per storage. The pickle is converted to a
// list of named tensors and numbers (torch_state.cpp, which does no I/O), then to tensors (torch_file.cpp).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "io/safetensors_file.h"
#include "io/skipped_values.h"

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
  SkippedValues skipped;
};

/// Parses the pickle at byte `begin` of the file. Checks that every tensor lies within its storage, at the storage size
/// that the pickle states. Throws FormatError(file, ...).
State parse_state(const std::string& file, std::string_view pickle, std::uint64_t begin);

/// True if the first bytes are those of a file of torch.save: a zip file, or the format of PyTorch before 1.6.
bool is_torch_file(ByteSource& source);
/// Reads all tensors. Tensors that share a storage in the file share it in the result. Throws FormatError.
safetensors::Contents read(ByteSource& source, const ReadOptions& options);
FileMetadata read_metadata(ByteSource& source, const ReadOptions& options);

}  // namespace lockstep::torch_file
