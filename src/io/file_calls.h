// The calls into the operating system that writing a file makes, behind an interface: tests record them and let them
// fail. Each does as the call it is named after.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace lockstep {

class FileCalls {
 public:
  virtual ~FileCalls() = default;
  virtual int open(const char* path, int flags, mode_t mode);
  virtual ssize_t pwrite(int descriptor, const void* data, std::size_t bytes, off_t offset);
  virtual int fsync(int descriptor);
  virtual int rename(const char* from, const char* to);
};

/// Those of this thread.
FileCalls& file_calls() noexcept;

/// While it lives, this thread makes its calls through `calls`.
class ReplaceFileCalls {
 public:
  explicit ReplaceFileCalls(FileCalls& calls) noexcept;
  ~ReplaceFileCalls();
  ReplaceFileCalls(const ReplaceFileCalls&) = delete;
  ReplaceFileCalls& operator=(const ReplaceFileCalls&) = delete;

 private:
  FileCalls* outer_;
};

}  // namespace lockstep
