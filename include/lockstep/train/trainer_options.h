// Options of a Trainer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/core/error.h>
#include <lockstep/parallel/data_parallel_options.h>
#include <lockstep/report/report.h>
#include <lockstep/train/progress.h>

namespace lockstep::train {

/// The quantity that gradient_clip_val limits: the 2-norm of all gradients together, or every element's magnitude.
enum class GradientClip : std::uint8_t { norm, value };

/// The dtype of the forward pass: float32 uses the module's own dtype, the others an autocast region of a 16-bit dtype
/// (lockstep/autograd/autocast.h). Parameters keep their dtype. float16 uses a GradScaler: steps whose gradients are
/// not finite are skipped, the host waits for the devices at each step, and checkpoints include the scale.
enum class Precision : std::uint8_t { float32, bfloat16, float16 };

/// When a schedule steps.
enum class ScheduleStep : std::uint8_t { epoch, step };

/// The reaction of fit() to a GPU that fails for good. stop: fit() throws, as for any failure. resume: it resumes from
/// the newest checkpoint on the remaining GPUs, and reports this on standard error and in the history; if no GPU
/// remains or there is no checkpoint yet, it throws. Only for a single process: several processes must be restarted.
/// docs/failures.md.
enum class OnLostDevice : std::uint8_t { stop, resume };

/// The checkpoints of a run, from which it can resume after it was killed. The end of training always writes a
/// checkpoint. With several processes, process 0 writes after all have reached that point, and all processes read, so
/// the folder must be visible to all. A run resumes bit for bit, even with another number of processes if the total
/// number of devices is the same.
struct CheckpointOptions {
  std::filesystem::path folder = {};  ///< Empty: no checkpoints.
  std::int64_t every_steps = 0;       ///< Writes one after each such number of steps; 0: not by steps.
  std::int64_t every_epochs = 1;      ///< Writes one after each such number of epochs; 0: not by epochs.
  std::int64_t keep = 3;              ///< Keeps this many of the newest checkpoints; 0: all.
  /// Resume, bit for bit, from the newest checkpoint in the folder, if any. If false, the folder must have no
  /// checkpoint.
  bool resume = false;
  /// With resume, the handling of damaged checkpoints that are newer than the newest intact one. false: they are
  /// skipped, named on standard error and in History::notes(), and left in place. true: the newest one's error is
  /// thrown, before anything has changed. If no checkpoint is intact, this error is thrown in both cases.
  bool strict = false;
};

struct TrainerOptions {
  std::int64_t max_epochs = 1;  ///< Passes over the whole loader.
  /// The first num_gpus GPUs that are not lost; 0: the CPU. By default all such GPUs, or else the CPU.
  std::optional<int> num_gpus = {};
  std::vector<Device> devices = {};                           ///< In place of num_gpus: the CPU alone, or GPUs.
  double gradient_clip_val = 0;                               ///< 0: no clipping.
  GradientClip gradient_clip_algorithm = GradientClip::norm;  ///< By norm or by value.
  std::int64_t accumulate = 1;                                ///< Batches per step (gradient accumulation).
  Precision precision = Precision::float32;                   ///< The dtype of the forward pass.
  std::int64_t log_every = 0;         ///< Steps from one report to the next; 0: report only at the end of epochs.
  bool stop_if_not_finite = true;     ///< Throw Diverged when a training loss that is reported or saved is not finite.
  CheckpointOptions checkpoint = {};  ///< Where and how often checkpoints are written.
  OnLostDevice on_lost_device = OnLostDevice::stop;  ///< OnLostDevice::resume needs a checkpoint folder.
  ProgressOptions progress = {};                     ///< Where progress is shown.
  DataParallelOptions parallel = {};  ///< device_ids must be empty. `world`: the processes that train together.
};

/// A training loss was not finite. Losses are checked when they are reported or saved, so the first bad step may be any
/// step since the last check.
class LOCKSTEP_API Diverged : public Error {
 public:
  Diverged(double mean, std::int64_t after, std::int64_t until);

  const double loss;              ///< The mean loss over a range of steps.
  const std::int64_t after_step;  ///< The last step before the range.
  const std::int64_t until_step;  ///< The last step of the range.
};

/// The options that matter for a run, for write_report().
LOCKSTEP_API std::vector<ReportSetting> settings_of(const TrainerOptions& options);

}  // namespace lockstep::train
