// The checkpoint from which a training run goes on, and where in the run that is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/train/checkpoint_folder.h>

namespace lockstep::train::detail {

struct ResumePoint {
  Checkpoint checkpoint;
  std::int64_t epoch = 0;  ///< That are done.
  std::int64_t step = 0;
  std::int64_t step_in_epoch = 0;
  std::int64_t reported_step = 0;
  double seconds = 0;
  std::vector<std::string> passed_over = {};  ///< A line for each newer one: which, and what is wrong with it.
};

/// That of the newest checkpoint that is whole and does not contradict itself; nothing where there is none at all.
/// Throws the newest one's error where that is damaged and `strict`, or where all are, the others' attached:
/// FormatError, or IoError and InvalidArgument for what is no file that can be read. Throws InvalidArgument for a
/// checkpoint that is whole but not a Trainer's.
std::optional<ResumePoint> newest_intact(const CheckpointFolder& folder, bool strict);

/// That of one checkpoint. Throws as newest_intact() does where that is the only one.
ResumePoint point_at(const CheckpointFolder& folder, std::int64_t step);

}  // namespace lockstep::train::detail
