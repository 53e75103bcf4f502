// CheckpointFolder: the checkpoints of one training run, named by step; only the newest are kept.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <vector>

#include <lockstep/train/checkpoint.h>

namespace lockstep {

struct CheckpointFolderOptions {
  std::int64_t every = 1;  ///< Steps from one checkpoint to the next.
  std::int64_t keep = 3;   ///< How many to keep; 0: all.
};

/// Files are named step-000000000100.safetensors; other files in the folder are left alone. A program that is killed at
/// any instant leaves only complete checkpoints. Symbolic links are not followed: a link in place of a checkpoint
/// throws InvalidArgument, on write and on read. One writer at a time; no other program may change the files while it
/// writes.
class LOCKSTEP_API CheckpointFolder {
 public:
  /// Creates the folder if it is missing. Throws InvalidArgument for options out of range, and IoError.
  explicit CheckpointFolder(std::filesystem::path folder, const CheckpointFolderOptions& options = {});

  /// True if a checkpoint is due after `step` steps.
  bool is_due(std::int64_t step) const noexcept { return step % options_.every == 0; }
  /// Writes the checkpoint, then removes older checkpoints beyond `keep`, and temporary files of killed writers.
  /// Checkpoints of higher steps, from a run that went further, are kept. Damaged checkpoints are kept too and do not
  /// count; if their step is saved again, the damaged file is first renamed to step-000000000100.safetensors.damaged.
  /// To find damaged files, save() reads each file that another CheckpointFolder wrote, once.
  void save(std::int64_t step, const Checkpoint& checkpoint) const;

  /// The steps of all checkpoints, in order.
  std::vector<std::int64_t> steps() const;
  /// The highest step that has a checkpoint; nullopt if there is none.
  std::optional<std::int64_t> latest() const;
  std::filesystem::path path(std::int64_t step) const;  ///< The file of the checkpoint after `step` steps.
  /// Throws as Checkpoint::load().
  Checkpoint load(std::int64_t step, const ReadOptions& options = {}) const;

 private:
  bool is_intact(std::int64_t step) const;
  void set_aside_if_damaged(std::int64_t step) const;

  std::filesystem::path folder_;
  CheckpointFolderOptions options_;
  mutable std::map<std::int64_t, bool> intact_;  // step -> is its file intact? Files that save() wrote or verified
};

/// The newest checkpoint in a folder; nullopt if there is none, or no folder.
LOCKSTEP_API std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& folder);

}  // namespace lockstep
