// ByteSource: random access to bytes of known size, from a file or from a test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include <lockstep/core/error.h>
#include <lockstep/io/atomic_file.h>

#include "core/text.h"

namespace lockstep {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// The name of the data in error messages.
  virtual const std::string& name() const = 0;
  virtual std::uint64_t size() const = 0;
  /// Throws FormatError if the data end before the size that size() returned.
  virtual void read(std::uint64_t offset, void* to, std::size_t bytes) = 0;

  std::string bytes_at(std::uint64_t offset, std::uint64_t bytes) {
    std::string found(std::size_t(bytes), '\0');
    read(offset, found.data(), found.size());
    return found;
  }
  bool begins_with(std::string_view mark) { return size() >= mark.size() && bytes_at(0, mark.size()) == mark; }
  /// Throws FormatError at byte `offset`, with the reason text(reason...).
  template <class... Reason>
  [[noreturn]] void fail(std::uint64_t offset, const Reason&... reason) const {
    throw FormatError(name(), offset, text(reason...));
  }
};

/// A regular file. One thread at a time.
class FileSource final : public ByteSource {
 public:
  /// Throws IoError, and InvalidArgument naming `op` if the path is not a regular file, or is a link and links are
  /// refused.
  explicit FileSource(const std::filesystem::path& path, Links links = Links::follow, const char* op = "load");
  ~FileSource() override;
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  const std::string& name() const override { return name_; }
  std::uint64_t size() const override { return size_; }
  void read(std::uint64_t offset, void* to, std::size_t bytes) override;

 private:
  std::string name_;
  int descriptor_;
  std::uint64_t size_ = 0;
};

}  // namespace lockstep
