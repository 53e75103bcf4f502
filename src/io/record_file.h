// RecordFile: a file of records that grows, in TensorFlow's TFRecord framing: each record has its length (8 bytes,
// little endian), the masked CRC-32C of these, its bytes, and the masked CRC-32C of them. One thread at a time.
// (https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details)
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace lockstep {

class RecordFile {
 public:
  /// A file that was not there. Throws IoError.
  explicit RecordFile(std::filesystem::path path);
  /// Writes what add() keeps; what cannot be written is told on standard error.
  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }
  /// Keeps the record for flush(), up to kMostKept bytes of them; beyond, flushes.
  void add(std::string_view record);
  /// Gives what is kept to the operating system, whole records at once, so that readers find no half ones. Throws
  /// IoError; what was not written stays, to be tried again.
  void flush();

  static constexpr std::size_t kMostKept = std::size_t(1) << 20;

 private:
  const std::filesystem::path path_;
  int descriptor_ = -1;
  std::string kept_;
};

}  // namespace lockstep
