// Checksums in the header of a safetensors file: texts in its __metadata__, which other programs ignore.
//   {"__metadata__":{"lockstep.checksum.header":"xxh3:<16 digits>","lockstep.checksum.tensors":"<16 digits> ...",...
// The header's covers the header's length and all of the header, its own digits taken as zeros. The tensors' stand in
// the order of the header. A file has both or none, so that damage to the name of one does not look like a file
// without.
#pragma once

#include <string>
#include <string_view>

#include "io/safetensors_header.h"

namespace lockstep::safetensors {

/// The two texts as JSON, to stand first in __metadata__. Entries whose checksum is not known count as zeros.
std::string checksums_json(const Header& header);
/// Puts the header's own digits into JSON that begins with them.
void seal_header(std::string& json);

/// Throws FormatError(file, ...) where the JSON begins with a checksum of the header that is not right.
void verify_header(const std::string& file, std::string_view json);
/// Moves the checksums out of the metadata. With `verify` into the entries; then throws FormatError(file, ...) unless
/// there are both and as many as tensors, or none.
void take_checksums(const std::string& file, std::string_view json, Header& header, bool verify);

/// Whether a name in __metadata__ is one of these.
bool names_checksum(std::string_view name);

}  // namespace lockstep::safetensors
