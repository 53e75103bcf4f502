// Checksums in the header of a safetensors file: entries of its __metadata__, which other programs ignore.
//   {"__metadata__":{"lockstep.checksum.header":"xxh3:<16 digits>","lockstep.checksum.tensors":"<16 digits> ...",...
// The header's checksum covers the header's length and the whole header, with its own digits as zeros. The tensors'
// checksums are in the order of the header. A file has both entries or none: a file with only one is damaged, not a
// file without checksums.
#pragma once

#include <string>
#include <string_view>

#include "io/safetensors_header.h"

namespace lockstep::safetensors {

/// Returns the two entries as JSON, which must come first in __metadata__. An unknown checksum is written as zeros.
std::string checksums_json(const Header& header);
/// Fills in the header's own checksum in JSON made with checksums_json().
void seal_header(std::string& json);

/// Throws FormatError(file, ...) if the JSON begins with a wrong header checksum.
void verify_header(const std::string& file, std::string_view json);
/// Removes the checksums from the metadata. With `verify`, stores them in the entries, and throws FormatError(file,
/// ...) unless both entries are there, with one checksum per tensor, or neither.
void take_checksums(const std::string& file, std::string_view json, Header& header, bool verify);

/// True if a name in __metadata__ is reserved for checksums.
bool names_checksum(std::string_view name);

}  // namespace lockstep::safetensors
