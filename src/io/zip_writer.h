// ZipWriter: writes a zip file of uncompressed entries, which numpy.load and torch can map or read (APPNOTE.TXT 6.3.10
// of PKWARE, with zip64 if a size needs it). One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <lockstep/io/atomic_file.h>

namespace lockstep {

class ZipWriter {
 public:
  /// `file` must outlive this. Nothing else may be written to it.
  explicit ZipWriter(AtomicFile& file) : file_(file) {}

  /// Adds an entry with the data `before`, then `bytes` bytes at `data`. Names must be distinct, UTF-8, and at most
  /// 65,535 bytes.
  void add(const std::string& name, std::string_view before, const void* data, std::size_t bytes);
  /// Call it once, at the end.
  void finish();

 private:
  void write(std::string_view bytes);

  AtomicFile& file_;
  std::uint64_t size_ = 0, entries_ = 0;
  std::string directory_;
};

}  // namespace lockstep
