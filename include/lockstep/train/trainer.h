// Trainer: the training loop, on one device or on several, of one process or of several.
//
//   train::Trainer trainer({.max_epochs = 10, .num_gpus = 2, .gradient_clip_val = 1});
//   train::History history = trainer.fit(net, loader, {
//       .loss = [](auto& model, auto& batch, auto& metrics) {
//         auto& [input, target] = batch;
//         return nn::cross_entropy(model(input), target);
//       },
//       .optimizer = optimizer,
//   });
//   history.write_svg("history.svg");
//
// The idea and the names are those of the Trainer of "Dive into Deep Learning" (d2l.ai) and of PyTorch Lightning.
// One thread at a time.
#pragma once

#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/train/batches.h>
#include <lockstep/train/fit_loop.h>
#include <lockstep/train/passes.h>
#include <lockstep/train/prepared.h>
#include <lockstep/train/recovery.h>
#include <lockstep/train/trainer_options.h>

namespace lockstep::train {

/// What is trained how.
template <class M, class Batch>
struct FitOptions {
  /// The loss of a batch, which lies on model.device(): one element, the mean over the batch's rows. (Of this process,
  /// if there are several. With .parallel = {.loss = ProcessLoss::sum} it is this process's part of a sum, such as that
  /// of its rows' losses divided by model.batch_rows(): the bits do not depend on the number of processes then.) Called
  /// to train, and without gradients and in evaluation mode to validate. Further means to report go into `metrics`.
  std::function<Tensor(Prepared<M>& model, Batch& batch, Metrics& metrics)> loss;
  optim::Optimizer& optimizer;                       ///< Of the module's parameters.
  optim::Schedule* schedule = nullptr;               ///< Of that optimizer.
  ScheduleStep schedule_step = ScheduleStep::epoch;  ///< When the schedule goes on.
  Batches<Batch> validation = {};                    ///< Another loader of such batches.
};

namespace detail {
[[noreturn]] LOCKSTEP_API void throw_no_loss();
}

/// A plain value: what fit() needs to know about how to train anything.
class LOCKSTEP_API Trainer {
 public:
  /// Throws InvalidArgument for options out of range, and for devices that are not there.
  explicit Trainer(TrainerOptions options);

  const TrainerOptions& options() const noexcept { return options_; }  ///< As they were given.
  /// Where modules are put; the first one is where batches go and losses come from.
  const std::vector<Device>& devices() const noexcept { return devices_; }
  /// This process's rows of each batch, for its loaders: {.batch_size = 64, .seed = 1, .share = trainer.share()}.
  data::BatchShare share() const noexcept { return detail::share_of(options_.parallel.world, devices_.size()); }

  /// The module on these devices.
  template <class M>
  Prepared<M> prepare_model(M& module) const {
    return Prepared<M>(module, devices_, options_.parallel);
  }
  /// Enqueues the copies of all tensors in a batch to the first device.
  template <class Batch>
  Batch prepare_batch(Batch batch) const {
    return moved_to(std::move(batch), devices_.front());
  }

  /// Trains for max_epochs. The module is moved to the first device and stays there; its training mode is afterwards
  /// what it was, after an error too. One step is `accumulate` batches, fewer at the end of an epoch: the gradient is
  /// that of one batch of all their rows.
  ///
  /// The history has a row every log_every steps and at the end of each epoch: epoch, step, seconds, lr, and train_ and
  /// validation_ of the loss and of each metric, means over what came since the row before, by rows.
  ///
  /// Throws InvalidArgument before anything has changed for arguments that do not fit, Diverged, and what the loss, the
  /// loaders, DataParallel, and checkpoints throw. An error leaves none in the devices' streams; of a lost device it is
  /// thrown unless TrainerOptions::on_lost_device says to go on.
  ///
  /// With options.parallel.world of several processes all of them call it, alike but for their rows of the batches: a
  /// loader has .share = share(), or gives each process batches of its own, as many as the others'. Means are over all
  /// processes' rows and the history is the same everywhere; process 0 alone prints and writes. What is refused, a loss
  /// that is not finite and a checkpoint that cannot be written or read end it in all processes alike; any other error
  /// of one process ends the others with a CollectiveError that names it, and the world with them. All begin with
  /// process 0's parameters and random numbers, and keep the same numbers as long as the loss draws as many in each.
  template <class M, class Loader>
  History fit(M& module, Loader& loader,
              const FitOptions<std::type_identity_t<M>, std::type_identity_t<BatchOf<Loader>>>& options) const {
    if (!options.loss) detail::throw_no_loss();
    for (detail::Recovery recovery(options_, devices_);;) try {
        return lockstep::detail::draining(recovery.devices(),
                                          [&] { return fit_on(recovery, module, loader, options); });
      } catch (const Error&) {
        recovery.go_on_or_rethrow(module, options.optimizer);
      }
  }

 private:
  // On the devices of the present try.
  template <class M, class Loader, class Options>
  static History fit_on(const detail::Recovery& recovery, M& module, Loader& loader, const Options& options) {
    const Batches<BatchOf<Loader>> training(loader), &validation = options.validation;
    const TrainerOptions& trainer = recovery.options();
    detail::FitLoop loop(trainer, recovery.devices().front(),
                         {.module = module,
                          .optimizer = options.optimizer,
                          .schedule = options.schedule,
                          .schedule_step = options.schedule_step,
                          .training = training,
                          .validation = validation,
                          .share = detail::share_of(trainer.parallel.world, recovery.devices().size()),
                          .notes = recovery.notes()});
    Prepared<M> model(module, recovery.devices(), trainer.parallel);
    detail::Passes<M, BatchOf<Loader>> passes(model, options.loss, trainer.precision,
                                              [&](const Tensor& loss) { return loop.scaled(loss); });
    const auto train = [&](Metrics& metrics, const std::function<void()>& step) {
      passes.train(training, trainer.accumulate, metrics, step);
    };
    const auto validate = [&](Metrics& metrics) { passes.validate(validation, metrics); };
    try {
      return loop.run(train, validation.each ? detail::FitLoop::Validate(validate) : nullptr);
    } catch (...) {
      if (!loop.all_threw()) lockstep::detail::fail_processes(trainer.parallel.world);
      throw;
    }
  }

  TrainerOptions options_;
  std::vector<Device> devices_;
};

}  // namespace lockstep::train
