// What a Trainer is told.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/core/error.h>
#include <lockstep/parallel/data_parallel_options.h>
#include <lockstep/train/progress.h>

namespace lockstep::train {

/// What gradient_clip_val limits: the 2-norm of all gradients together, or every element's magnitude.
enum class GradientClip : std::uint8_t { norm, value };

/// What losses are computed in: the dtypes of the module, or an autocast region of a 16-bit one
/// (lockstep/autograd/autocast.h). Parameters keep their dtype. float16 comes with a GradScaler: steps whose gradients
/// are not finite are left out, the host waits for the devices at each step, and checkpoints hold the scale.
enum class Precision : std::uint8_t { float32, bfloat16, float16 };

/// When a schedule goes on.
enum class ScheduleStep : std::uint8_t { epoch, step };

/// What fit() does when a GPU fails for good: throws, as for any failure, or goes on from the newest checkpoint with
/// the GPUs that are left, and says so on standard error and in the history. It throws all the same where none is left,
/// or where there is no checkpoint yet. For a process alone: several start anew. docs/failures.md says more.
enum class OnLostDevice : std::uint8_t { stop, resume };

/// Where a run is kept, so that it can go on after it was killed. There is a checkpoint at the end of training in any
/// case. Of several processes the first one writes, when all have come to that point, and all read: the folder is one
/// that all of them see. A run goes on, bit for bit, also with another number of processes that have as many devices
/// together. Where shard_optimizer_state and clipping by norm meet, a resumed run is not the same to the last bit: it
/// begins with the first division into buckets, by which the norm is added in another order.
struct CheckpointOptions {
  std::filesystem::path folder = {};  ///< Empty: nowhere.
  std::int64_t every_steps = 0;       ///< 0: not by steps.
  std::int64_t every_epochs = 1;      ///< 0: not by epochs.
  std::int64_t keep = 3;              ///< The newest so many; 0: all.
  bool resume = false;  ///< Go on, bit for bit, from the newest one there, if any. Else the folder must have none.
  /// With resume, what becomes of damaged ones that are newer than any intact one. false: they are passed over, named
  /// on standard error and in History::notes(), and stay. true: the newest one's error is thrown, and nothing has
  /// changed. Where none is intact, it is thrown either way.
  bool strict = false;
};

struct TrainerOptions {
  std::int64_t max_epochs = 1;  ///< Through all batches of the loader.
  /// The first so many that are not lost; 0: the CPU. All of those, or else the CPU, if not given.
  std::optional<int> num_gpus = {};
  std::vector<Device> devices = {};                           ///< Instead of num_gpus: the CPU alone, or GPUs.
  double gradient_clip_val = 0;                               ///< 0: gradients are left as they are.
  GradientClip gradient_clip_algorithm = GradientClip::norm;  ///< What gradient_clip_val limits.
  std::int64_t accumulate = 1;                                ///< Batches in a step.
  Precision precision = Precision::float32;                   ///< What losses are computed in.
  std::int64_t log_every = 0;         ///< Steps from one report to the next; 0: at the end of epochs alone.
  bool stop_if_not_finite = true;     ///< Throw Diverged when a training loss that is reported or saved is not finite.
  CheckpointOptions checkpoint = {};  ///< Where and how often the run is kept.
  OnLostDevice on_lost_device = OnLostDevice::stop;  ///< To resume needs a folder for checkpoints.
  ProgressOptions progress = {};                     ///< Where progress is shown.
  DataParallelOptions parallel = {};  ///< But for device_ids. Its world: the processes that train together.
};

/// A training loss was not finite. It is noticed where losses are read: the step that brought it is one of those
/// between.
class LOCKSTEP_API Diverged : public Error {
 public:
  Diverged(double mean, std::int64_t after, std::int64_t until);

  const double loss;              ///< The mean over these steps.
  const std::int64_t after_step;  ///< The steps are those after this one.
  const std::int64_t until_step;  ///< The last of these steps.
};

}  // namespace lockstep::train
