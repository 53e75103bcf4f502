#include "io/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "io/path.h"

namespace lockstep {
namespace {

constexpr std::size_t kMaxRead = std::size_t(1) << 30;  // Linux reads at most 2 GiB - 4 KiB per call

// With O_NONBLOCK, open() does not wait for a pipe, which is rejected later. It has no effect on regular files.
int open_to_read(const std::filesystem::path& path, Links links, const char* op) {
  check_path(op, path);
  const int descriptor =
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | (links == Links::refuse ? O_NOFOLLOW : 0));
  if (descriptor >= 0) return descriptor;
  if (errno == ELOOP && links == Links::refuse)
    throw InvalidArgument(text('[', op, "] expected the name of a file, got a symbolic link, ", path));
  throw IoError("open", path.string(), errno);
}

}  // namespace

FileSource::FileSource(const std::filesystem::path& path, Links links, const char* op)
    : name_(path.string()), descriptor_(open_to_read(path, links, op)) {
  struct stat status;
  const bool known = ::fstat(descriptor_, &status) == 0;
  if (known && S_ISREG(status.st_mode)) {
    size_ = std::uint64_t(status.st_size);
    return;
  }
  const int error = errno;
  ::close(descriptor_);
  if (!known) throw IoError("stat", name_, error);
  throw InvalidArgument(text('[', op, "] expected the name of a file, got ", path));
}

FileSource::~FileSource() { ::close(descriptor_); }

// The file is not memory-mapped: if it were truncated meanwhile, SIGBUS would end the program.
void FileSource::read(std::uint64_t offset, void* to, std::size_t bytes) {
  auto* at = static_cast<std::byte*>(to);
  while (bytes > 0) {
    const ssize_t got = ::pread(descriptor_, at, std::min(bytes, kMaxRead), off_t(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw IoError("read", name_, errno);
    if (got == 0) fail(offset, "expected ", bytes, " bytes more, got the end of the file");
    at += got;
    offset += std::uint64_t(got);
    bytes -= std::size_t(got);
  }
}

}  // namespace lockstep
