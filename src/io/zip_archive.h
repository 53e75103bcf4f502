// ZipArchive: the entries of a zip file, of which those are read that are stored as they are, as torch.save and
// numpy.savez write them. The file is not trusted (APPNOTE.TXT 6.3.10 of PKWARE, with zip64). One thread at a time.
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
    std::uint64_t header = 0;  ///< Byte of the file where the entry begins.
    std::uint64_t begin = 0;   ///< Where its data begin.
    std::uint64_t bytes = 0;
    std::uint64_t packed = 0;  ///< Bytes in the file: `bytes`, unless the entry is compressed.
    std::uint32_t crc = 0;
    std::uint16_t method = 0;  ///< Of compression; 0 for none.
  };

  /// Reads the directory, and the beginning of each entry. Throws FormatError for what breaks the format, for entries
  /// that are encrypted, overlap or have another name at their beginning than in the directory, and for a name that is
  /// there twice. `source` outlives this.
  explicit ZipArchive(ByteSource& source);

  const std::vector<Entry>& entries() const noexcept { return entries_; }
  /// Null if there is none.
  const Entry* find(std::string_view name) const;

  /// Throws FormatError for an entry that is compressed, as those that read do.
  void check_stored(const Entry& entry) const;
  /// Throws FormatError unless that is the CRC of its data.
  void check_crc(const Entry& entry, std::uint32_t crc) const;
  /// All of an entry's data. With `verify`, throws FormatError where its CRC does not fit.
  void read(const Entry& entry, void* to, bool verify);
  /// Reads the data, keeps nothing, and throws FormatError where their CRC does not fit.
  void verify(const Entry& entry);
  /// All data as a text, of at most so many bytes: else throws FormatError.
  std::string read_text(const Entry& entry, std::uint64_t most, bool verify);

 private:
  struct Directory {
    std::uint64_t begin, bytes, entries;
  };
  Directory find_directory();
  void read_directory(const Directory& directory);
  void locate(const Directory& directory);
  [[noreturn]] void fail(std::uint64_t offset, const std::string& reason) const;

  ByteSource& source_;
  std::vector<Entry> entries_;
  std::map<std::string, std::size_t, std::less<>> positions_;  // by name
};

/// Whether the first bytes are those of a zip file, and not the length and the brace that begin a safetensors file.
bool is_zip(ByteSource& source);

}  // namespace lockstep
