// The header of a safetensors file, parsed and checked, or made: JSON of
//   {"__metadata__": {"name": "text"}, "key": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
// Pure functions of bytes: they know neither files nor tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/core/dtype.h>
#include <lockstep/core/shape.h>
#include <lockstep/io/safetensors.h>

namespace lockstep::safetensors {

inline constexpr std::uint64_t kLengthBytes = 8;               // the header's length, before the header
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // as in the format's own implementation
// What is built of a header takes more memory than its text. These bound by how much, for one of 100 MB and of 10 MB.
inline constexpr std::size_t kMaxTensors = 1 << 18;
inline constexpr std::size_t kMaxTexts = 1 << 16;
inline constexpr std::string_view kMetadataKey = "__metadata__";

struct Entry {
  std::string key;
  DType dtype = kFloat32;
  Shape shape;
  std::uint64_t begin = 0, end = 0;            ///< Bytes in the data, which follow the header.
  std::uint64_t noticed_at = 0;                ///< Where its description ends in the file.
  std::optional<std::uint64_t> checksum = {};  ///< Of its data, if it is known.
};

struct Header {
  std::vector<Entry> entries;
  FileMetadata metadata;
};

/// By the name that the format gives it; nothing for one that Lockstep does not hold.
std::optional<DType> dtype_named(std::string_view name);

/// Bytes of a file, for a message: quoted, short and safe to print.
std::string shown(std::string_view bytes);

/// Throws FormatError(file, ...) unless `json`, which starts at byte kLengthBytes of the file, is a header of at most
/// so many tensors and texts, whose entries cover `data_bytes` bytes without overlap or holes.
Header parse_header(const std::string& file, std::string_view json, std::uint64_t data_bytes);

/// The JSON, with checksums, padded by spaces so that the data begin at a multiple of 8. Throws InvalidArgument for
/// what a header cannot hold.
std::string header_json(const Header& header);

}  // namespace lockstep::safetensors
