// AtomicFile: a file that appears whole or not at all, however its writer ends. Used by one thread at a time; several
// writers, in any number of processes, may write the same file: the last to commit wins.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include <lockstep/core/error.h>
#include <lockstep/core/export.h>

namespace lockstep {

/// What is written goes to a temporary file in the same folder, which commit() gives the file's name. A writer that is
/// killed leaves a temporary at most; it is taken over by the next writer of the same file.
class LOCKSTEP_API AtomicFile {
 public:
  /// Throws IoError where no file can be made, and InvalidArgument where `path` names something that is not a file.
  /// A symbolic link is followed.
  explicit AtomicFile(const std::filesystem::path& path);
  /// Without commit() the temporary is removed, and what was there before stays.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Throws IoError, for a full disk too.
  void write(const void* data, std::size_t bytes);
  /// When it returns, the new file survives a loss of power. Where it throws IoError, the old file or the new one is
  /// there: the new one only if the folder could not be synchronized. To be called once.
  void commit();

  /// Removes what killed writers left in a folder; the temporaries of living ones stay. Returns how many were removed.
  static int remove_leftovers(const std::filesystem::path& folder);

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
};

}  // namespace lockstep
