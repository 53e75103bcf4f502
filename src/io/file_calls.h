// System calls for writing files, behind an interface, so that tests can record them and make them fail. Each function
// is the system call of its name.
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

/// Returns the implementation that this thread uses.
FileCalls& file_calls() noexcept;

/// Makes this thread use `calls`, until destroyed.
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
