// CheckpointFolder: the checkpoints of one training run, by the number of steps, of which the newest are kept.
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

/// Files are named step-000000000100.safetensors; others in the folder are left alone. A program that is killed at any
/// instant leaves whole checkpoints. A symbolic link at a checkpoint's name is refused by InvalidArgument, to write and
/// to read: none is followed. One writer at a time, and nobody else changes what it wrote.
class LOCKSTEP_API CheckpointFolder {
 public:
  /// Makes the folder where it is missing. Throws InvalidArgument for options out of range and IoError.
  explicit CheckpointFolder(std::filesystem::path folder, const CheckpointFolderOptions& options = {});

  /// Whether a checkpoint is to be made after `step` steps.
  bool is_due(std::int64_t step) const noexcept { return step % options_.every == 0; }
  /// Then removes what is not to be kept of the checkpoints up to this one, and what killed writers left. Later ones,
  /// of a run that went further, stay. So do damaged ones, which do not count: where the step of one is saved again,
  /// the damaged file is renamed first, to step-000000000100.safetensors.damaged. To know, reads each file that another
  /// writer left, once.
  void save(std::int64_t step, const Checkpoint& checkpoint) const;

  /// The steps of all checkpoints, in order.
  std::vector<std::int64_t> steps() const;
  /// The highest of them.
  std::optional<std::int64_t> latest() const;
  std::filesystem::path path(std::int64_t step) const;  ///< Of the checkpoint after `step` steps.
  /// Throws as Checkpoint::load().
  Checkpoint load(std::int64_t step, const ReadOptions& options = {}) const;

 private:
  bool is_intact(std::int64_t step) const;
  void set_aside_if_damaged(std::int64_t step) const;

  std::filesystem::path folder_;
  CheckpointFolderOptions options_;
  mutable std::map<std::int64_t, bool> intact_;  // by step, what save() wrote or looked at
};

/// The newest checkpoint in a folder; nothing if there is none, or no folder.
LOCKSTEP_API std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& folder);

}  // namespace lockstep
