// AtomicFile: a file that appears whole or not at all, however its writer ends. Used by one thread at a time; several
// writers, in any number of processes, may write the same file: the last to commit wins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include <lockstep/core/error.h>
#include <lockstep/core/export.h>

namespace lockstep {

/// What is done where the last part of a path is a symbolic link. Links to folders on the way are followed either way.
enum class Links : std::uint8_t { follow, refuse };

/// What is written goes to a temporary file in the same folder, which commit() gives the file's name. A writer that is
/// killed leaves a temporary at most; it is taken over by the next writer of the same file. What else lies at a
/// temporary's name, such as a pipe or a link, is left alone, and never waited for.
class LOCKSTEP_API AtomicFile {
 public:
  /// Throws IoError where no file can be made, and InvalidArgument where `path` names something that is not a file, or
  /// a link that is to be refused. With Links::refuse, a link that appears later is replaced, never followed.
  explicit AtomicFile(const std::filesystem::path& path, Links links = Links::follow);
  /// Without commit() the temporary is removed, and what was there before stays.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends. Throws IoError, for a full disk too.
  void write(const void* data, std::size_t bytes);
  /// From byte `offset` of the file on, over what is there. Bytes that are never written are 0. Throws as write().
  void write_at(std::uint64_t offset, const void* data, std::size_t bytes);
  /// When it returns, the new file survives a loss of power. Where it throws IoError, the old file or the new one is
  /// there: the new one only if the folder could not be synchronized. To be called once.
  void commit();

  /// Removes what killed writers left in a folder; the temporaries of living ones stay. Returns how many were removed.
  static int remove_leftovers(const std::filesystem::path& folder);

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace lockstep
