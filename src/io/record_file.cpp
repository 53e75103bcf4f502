#include "io/record_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <iostream>
#include <utility>

#include <lockstep/core/error.h>

#include "core/text.h"
#include "io/crc32.h"
#include "io/path.h"

namespace lockstep {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

template <class T>
void append_number(std::string& to, T number) {
  to.append(reinterpret_cast<const char*>(&number), sizeof number);
}

}  // namespace

RecordFile::RecordFile(std::filesystem::path path) : path_(std::move(path)) {
  check_path("RecordFile", path_);
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw IoError("open", path_.string(), errno);
}

RecordFile::~RecordFile() {
  try {
    flush();
  } catch (const std::exception& error) {
    std::cerr << text(error.what(), "; the last ", buffered_.size(), " bytes of records are lost\n");
  }
  ::close(descriptor_);
}

void RecordFile::add(std::string_view record) {
  const auto length = std::uint64_t(record.size());
  append_number(buffered_, length);
  append_number(buffered_, masked_crc32c(crc32c_of(&length, sizeof length)));
  buffered_ += record;
  append_number(buffered_, masked_crc32c(crc32c_of(record.data(), record.size())));
  if (buffered_.size() > kMaxBuffered) flush();
}

void RecordFile::flush() {
  std::size_t written = 0;
  while (written < buffered_.size()) {
    const ssize_t count = ::write(descriptor_, buffered_.data() + written, buffered_.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const int code = errno;
      buffered_.erase(0, written);
      throw IoError("write", path_.string(), code);
    }
    written += std::size_t(count);
  }
  buffered_.clear();
}

}  // namespace lockstep
