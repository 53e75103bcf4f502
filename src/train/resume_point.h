// The checkpoint that a training run resumes from, and its position in the run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/train/checkpoint_folder.h>

namespace lockstep::train::detail {

struct ResumePoint {
  Checkpoint checkpoint;
  std::int64_t epoch = 0;  ///< Epochs done.
  std::int64_t step = 0;
  std::int64_t step_in_epoch = 0;
  std::int64_t reported_step = 0;
  double seconds = 0;
  /// A line for each newer checkpoint that was skipped: its name and its error.
  std::vector<std::string> passed_over = {};
};

/// Returns the newest checkpoint that is intact and consistent; nullopt if the folder has none at all. If the newest is
/// damaged and `strict`, throws its error. If all are damaged, throws the newest one's error with the others attached.
/// The error is a FormatError, or IoError or InvalidArgument for a file that cannot be read. Throws InvalidArgument for
/// an intact checkpoint that is not a Trainer's.
std::optional<ResumePoint> newest_intact(const CheckpointFolder& folder, bool strict);

/// Returns the checkpoint of one step. Throws as newest_intact() does for a folder that has only this checkpoint.
ResumePoint point_at(const CheckpointFolder& folder, std::int64_t step);

}  // namespace lockstep::train::detail
