// ZipArchive: reads a zip file's uncompressed entries, such as those of torch.save and numpy.savez. The file is not
// trusted (APPNOTE.TXT 6.3.10 of PKWARE, with zip64). One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "io/byte_source.h"

namespace lockstep {

class ZipArchive {
 public:
  static constexpr std::uint64_t kMaxDirectoryBytes = 100'000'000;
  static constexpr std::size_t kMaxEntries = 1 << 19;

  struct Entry {
    std::string name;
    std::uint64_t header = 0;  ///< The file position of the entry's local header, in bytes.
    std::uint64_t begin = 0;   ///< The file position of its data.
    std::uint64_t bytes = 0;
    std::uint64_t packed = 0;  ///< Size in the file: `bytes`, unless the entry is compressed.
    std::uint32_t crc = 0;
    std::uint16_t method = 0;  ///< Compression method; 0: no compression.
  };

  /// Reads the directory and all local headers. Throws FormatError for a malformed file; for entries that are
  /// encrypted, overlap, or have different names in the directory and the local header; and for a name that occurs
  /// twice. `source` must outlive this.
  explicit ZipArchive(ByteSource& source);

  const std::vector<Entry>& entries() const noexcept { return entries_; }
  /// Returns null if there is no such entry.
  const Entry* find(std::string_view name) const;

  /// Throws FormatError for a compressed entry; so do the functions that read data.
  void check_stored(const Entry& entry) const;
  /// Throws FormatError unless `crc` is the CRC of the entry's data.
  void check_crc(const Entry& entry, std::uint32_t crc) const;
  /// Reads all data of an entry. With `verify`, throws FormatError for a wrong CRC.
  void read(const Entry& entry, void* to, bool verify);
  /// Reads the data without keeping them, and throws FormatError for a wrong CRC.
  void verify(const Entry& entry);
  /// Returns all data as a string. Throws FormatError if they exceed `most` bytes.
  std::string read_text(const Entry& entry, std::uint64_t most, bool verify);

 private:
  struct Directory {
    std::uint64_t begin, bytes, entries;
  };
  Directory find_directory();
  void read_directory(const Directory& directory);
  void locate(const Directory& directory);

  ByteSource& source_;
  std::vector<Entry> entries_;
  std::map<std::string, std::size_t, std::less<>> positions_;  // of the entries, by name
};

/// True if the first bytes are those of a zip file, and not the length and the brace that begin a safetensors file.
bool is_zip(ByteSource& source);

}  // namespace lockstep
