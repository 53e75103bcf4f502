// AtomicFile: a file that is written completely or not at all, even if its writer is killed. One thread at a time.
// Several writers, in any number of processes, may write the same file: the last commit wins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include <lockstep/core/error.h>
#include <lockstep/core/export.h>

namespace lockstep {

/// How a symbolic link at the last component of a path is treated. Links to folders on the way are always followed.
enum class Links : std::uint8_t { follow, refuse };

/// Writes to a temporary file in the same folder, which commit() renames to the file's name. A writer that is killed
/// leaves at most a temporary file, which the next writer of the same file reuses. If a pipe, a link or another such
/// thing has the name of a temporary file, the writer does not touch it, and never waits for it.
class LOCKSTEP_API AtomicFile {
 public:
  /// Throws IoError if the file cannot be created, InvalidArgument if `path` is not a regular file, or is a link and
  /// Links::refuse is given. With Links::refuse, a link that appears later is replaced, not followed.
  explicit AtomicFile(const std::filesystem::path& path, Links links = Links::follow);
  /// Without commit(), removes the temporary file; the previous file stays.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends bytes to the file. Throws IoError, also for a full disk.
  void write(const void* data, std::size_t bytes);
  /// Writes at byte `offset` of the file, over any bytes there. Bytes that are never written are 0. Throws as write()
  /// does.
  void write_at(std::uint64_t offset, const void* data, std::size_t bytes);
  /// Gives the file its name. Call it once. After it returns, the new file survives a power failure. If it throws
  /// IoError, the old file is still there (or the new file, if only the folder could not be synchronized).
  void commit();

  /// Removes temporary files of killed writers from a folder, but not those of running writers. Returns the number
  /// removed.
  static int remove_leftovers(const std::filesystem::path& folder);

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace lockstep
