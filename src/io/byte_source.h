// Bytes of known number to read from: a file, or whatever a test puts in its place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include <lockstep/io/atomic_file.h>

namespace lockstep {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// For messages.
  virtual const std::string& name() const = 0;
  virtual std::uint64_t size() const = 0;
  /// Throws FormatError where the bytes end too early, although size() promised them.
  virtual void read(std::uint64_t offset, void* to, std::size_t bytes) = 0;
};

/// A regular file. One thread at a time.
class FileSource final : public ByteSource {
 public:
  /// Throws IoError, and InvalidArgument naming `op` for what is not a regular file, or a link that is to be refused.
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
