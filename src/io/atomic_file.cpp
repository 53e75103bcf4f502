// A temporary file belongs to the process that holds its lock (flock). The lock ends with the process, so a file
// without a lock is the leftover of a killed writer.
#include <lockstep/io/atomic_file.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/text.h"
#include "io/file_calls.h"
#include "io/path.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".lockstep-tmp";
constexpr int kMaxWriters = 1000;      // maximum number of writers of one file at once
constexpr std::size_t kMaxKept = 200;  // bytes of the file's name that its temporary name repeats; names have up to 255
constexpr int kMaxLinks = 40;          // the limit of Linux
constexpr std::size_t kMaxWrite = std::size_t(1) << 30;  // Linux writes at most 2 GiB - 4 KiB per call

[[noreturn]] void fail(const char* operation, const fs::path& path) { throw IoError(operation, path.string(), errno); }

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

int open_retrying(const fs::path& path, int flags) {
  int descriptor;
  do descriptor = file_calls().open(path.c_str(), flags | O_CLOEXEC, 0666);
  while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

// Opens the file with a temporary file's name if it is a regular file with a single hard link (a file with several
// belongs to someone else). Returns -1 otherwise. O_NONBLOCK avoids waiting for a pipe, and has no effect on regular
// files.
int open_leftover(const fs::path& path) {
  const int descriptor = open_retrying(path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK);
  struct stat status;
  if (descriptor < 0 || (::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 1))
    return descriptor;
  ::close(descriptor);
  return -1;
}

// Closes the descriptor and keeps errno.
void close_quietly(int descriptor) {
  const int error = errno;
  ::close(descriptor);
  errno = error;
}

// True if the path still refers to the open file, which may have been renamed or removed before it was locked.
bool is_at(const fs::path& path, int descriptor) {
  struct stat here, open_file;
  return ::lstat(path.c_str(), &here) == 0 && ::fstat(descriptor, &open_file) == 0 && here.st_ino == open_file.st_ino &&
         here.st_dev == open_file.st_dev;
}

// Lock::none: the file system has no locks. Leftovers of killed writers are then not recognized, and not reused.
enum class Lock { held, taken, none };
Lock lock(int descriptor) {
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return Lock::held;
  return errno == EWOULDBLOCK ? Lock::taken : Lock::none;
}

// Throws an error that names the target, not the temporary file.
[[noreturn]] void fail_to_make(const fs::path& target) {
  IoError error("open", target.string(), errno);
  const fs::path folder = folder_of(target);
  if (error.code == ENOENT)
    error.add_context(text("there is no folder ", folder, ": make it first, with std::filesystem::create_directories"));
  else
    error.add_context(text("no file can be made in the folder ", folder));
  throw error;
}

// Creates the temporary file `path`, or takes over a leftover. Returns -1 if a running writer has it.
int take_temporary(const fs::path& path, const fs::path& target) {
  int descriptor = open_retrying(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
  const bool is_new = descriptor >= 0;
  if (!is_new) {
    if (errno != EEXIST) fail_to_make(target);
    descriptor = open_leftover(path);
    if (descriptor < 0) return -1;
  }
  const Lock had = lock(descriptor);
  const bool mine = had == Lock::held || (is_new && had == Lock::none);
  if (mine && is_at(path, descriptor) && (is_new || ::ftruncate(descriptor, 0) == 0)) return descriptor;
  ::close(descriptor);
  return -1;
}

fs::path target_of(const fs::path& path, Links links) {
  check_path("save", path);
  std::error_code error;
  if (links == Links::refuse && fs::is_symlink(path, error))
    throw InvalidArgument(text("[save] expected the name of a file, got a symbolic link, ", path));
  fs::path target = path;
  for (int followed = 0; fs::is_symlink(target, error);
       ++followed) {  // the last link may point to a file that does not exist yet
    if (followed == kMaxLinks) throw IoError("open", path.string(), ELOOP);
    target = target.parent_path() / fs::read_symlink(target, error);
  }
  if (error && error != std::errc::no_such_file_or_directory) throw IoError("open", path.string(), error.value());
  const fs::file_status status = fs::status(target, error);
  if (target.empty() || (fs::exists(status) && !fs::is_regular_file(status)))
    throw InvalidArgument(text("[save] expected the name of a file, got ", path));
  return target;
}

int fsync_retrying(int descriptor) {
  int result;
  do result = file_calls().fsync(descriptor);
  while (result != 0 && errno == EINTR);
  return result;
}

// Some file systems do not support fsync on a folder, and do not need it.
void synchronize_folder(const fs::path& folder) {
  const int descriptor = open_retrying(folder, O_RDONLY | O_DIRECTORY);
  if (descriptor < 0) fail("open", folder);
  const int result = fsync_retrying(descriptor);
  close_quietly(descriptor);
  if (result != 0 && errno != EINVAL && errno != ENOTSUP) fail("fsync", folder);
}

}  // namespace

AtomicFile::AtomicFile(const fs::path& path, Links links) : path_(target_of(path, links)) {
  const std::string name = path_.filename().string().substr(0, kMaxKept);
  for (int i = 0; i < kMaxWriters; ++i) {
    temporary_ = folder_of(path_) / text('.', name, i ? text('.', i) : "", kSuffix);
    descriptor_ = take_temporary(temporary_, path_);
    if (descriptor_ < 0) continue;
    struct stat before;  // a replaced file keeps its permissions
    if (::stat(path_.c_str(), &before) == 0 && ::fchmod(descriptor_, before.st_mode & 07777) != 0) {
      const int error = errno;
      ::unlink(temporary_.c_str());
      ::close(std::exchange(descriptor_, -1));
      errno = error;
      fail("fchmod", path_);
    }
    return;
  }
  errno = EBUSY;
  fail("open", temporary_);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::unlink(temporary_.c_str());  // before close() releases the lock: another writer could then take the file
  ::close(descriptor_);
}

void AtomicFile::write(const void* data, std::size_t bytes) { write_at(size_, data, bytes); }

void AtomicFile::write_at(std::uint64_t offset, const void* data, std::size_t bytes) {
  const auto* at = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const ssize_t written = file_calls().pwrite(descriptor_, at, std::min(bytes, kMaxWrite), off_t(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write", path_);
    at += written;
    offset += std::uint64_t(written);
    bytes -= std::size_t(written);
  }
  size_ = std::max(size_, offset);
}

void AtomicFile::commit() {
  if (fsync_retrying(descriptor_) != 0) fail("fsync", path_);
  if (file_calls().rename(temporary_.c_str(), path_.c_str()) != 0) fail("rename", path_);
  ::close(std::exchange(descriptor_, -1));
  synchronize_folder(folder_of(path_));
}

int AtomicFile::remove_leftovers(const fs::path& folder) {
  check_path("remove_leftovers", folder);
  std::error_code error;
  int removed = 0;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with('.') || !name.ends_with(kSuffix)) continue;
    const int descriptor = open_leftover(entry->path());
    if (descriptor < 0) continue;
    if (lock(descriptor) == Lock::held && is_at(entry->path(), descriptor) && ::unlink(entry->path().c_str()) == 0)
      ++removed;
    ::close(descriptor);
  }
  if (error) throw IoError("read", folder.string(), error.value());
  return removed;
}

}  // namespace lockstep
