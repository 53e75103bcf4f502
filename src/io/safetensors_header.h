// Parses, checks and writes the header of a safetensors file, which is JSON:
//   {"__metadata__": {"name": "text"}, "key": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
// Pure functions of bytes, independent of files and tensors.
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

inline constexpr std::uint64_t kLengthBytes = 8;               // the header's length, which precedes it
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the limit of the format's reference implementation
// A parsed header takes more memory than its text. These limits bound it, whatever a text of kMaxHeaderBytes holds.
inline constexpr std::size_t kMaxTensors = 1 << 18;
inline constexpr std::size_t kMaxTexts = 1 << 16;
inline constexpr std::string_view kMetadataKey = "__metadata__";

struct Entry {
  std::string key;
  DType dtype = kFloat32;
  Shape shape;
  std::uint64_t begin = 0, end = 0;            ///< In the data after the header: bytes [begin, end).
  std::uint64_t noticed_at = 0;                ///< The file position after its description, for error messages.
  std::optional<std::uint64_t> checksum = {};  ///< Checksum of its data, if known.
};

struct Header {
  std::vector<Entry> entries;
  FileMetadata metadata;
};

/// Returns the dtype with that name in the format; nullopt for one that Lockstep does not have.
std::optional<DType> dtype_named(std::string_view name);

/// Formats bytes of a file for a message: quoted, short and safe to print.
std::string shown(std::string_view bytes);

/// Throws FormatError(file, ...) unless `json`, at byte kLengthBytes of the file, is a header with at most kMaxTensors
/// tensors and kMaxTexts texts, whose entries cover `data_bytes` bytes without overlap or holes.
Header parse_header(const std::string& file, std::string_view json, std::uint64_t data_bytes);

/// Returns the JSON with checksums, padded by spaces so that the data begin at a multiple of 8. Throws InvalidArgument
/// for content that a header cannot hold.
std::string header_json(const Header& header);

}  // namespace lockstep::safetensors
