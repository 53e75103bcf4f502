// RecordFile: an append-only file of records in TensorFlow's TFRecord framing: each record is its length (8 bytes,
// little endian), the masked CRC-32C of the length, the data, and the masked CRC-32C of the data. One thread at a time.
// (https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details)
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace lockstep {

class RecordFile {
 public:
  /// Creates a new file. Throws IoError, also if the file exists.
  explicit RecordFile(std::filesystem::path path);
  /// Flushes. Reports a failure to write on standard error.
  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }
  /// Buffers the record, and flushes when more than kMaxBuffered bytes are buffered.
  void add(std::string_view record);
  /// Writes the buffer, whole records per call, so that readers see no partial ones. Throws IoError; records that were
  /// not written stay in the buffer for another attempt.
  void flush();

  static constexpr std::size_t kMaxBuffered = std::size_t(1) << 20;

 private:
  const std::filesystem::path path_;
  int descriptor_ = -1;
  std::string buffered_;
};

}  // namespace lockstep
