#include "io/file_calls.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

namespace lockstep {
namespace {

FileCalls real_calls;
thread_local FileCalls* calls_of_thread = &real_calls;

}  // namespace

int FileCalls::open(const char* path, int flags, mode_t mode) { return ::open(path, flags, mode); }
ssize_t FileCalls::pwrite(int descriptor, const void* data, std::size_t bytes, off_t offset) {
  return ::pwrite(descriptor, data, bytes, offset);
}
int FileCalls::fsync(int descriptor) { return ::fsync(descriptor); }
int FileCalls::rename(const char* from, const char* to) { return std::rename(from, to); }

FileCalls& file_calls() noexcept { return *calls_of_thread; }

ReplaceFileCalls::ReplaceFileCalls(FileCalls& calls) noexcept : outer_(std::exchange(calls_of_thread, &calls)) {}
ReplaceFileCalls::~ReplaceFileCalls() { calls_of_thread = outer_; }

}  // namespace lockstep
