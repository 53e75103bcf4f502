// ZipWriter: a zip file of entries that are stored as they are, which numpy.load and torch's readers map or read
// (APPNOTE.TXT 6.3.10 of PKWARE, with zip64 where a size needs it). One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <lockstep/io/atomic_file.h>

namespace lockstep {

class ZipWriter {
 public:
  /// `file` outlives this; the archive is all that is written to it.
  explicit ZipWriter(AtomicFile& file) : file_(file) {}

  /// An entry whose data are `before` and then `bytes` bytes. Names are different, in UTF-8, of at most 65,535 bytes.
  void add(const std::string& name, std::string_view before, const void* data, std::size_t bytes);
  /// To be called once, at the end.
  void finish();

 private:
  void write(std::string_view bytes);

  AtomicFile& file_;
  std::uint64_t size_ = 0, entries_ = 0;
  std::string directory_;
};

}  // namespace lockstep
