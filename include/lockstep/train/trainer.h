// Trainer: the training loop, on one device or several, in one process or several.
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

#include <concepts>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/parallel/gather.h>
#include <lockstep/train/batches.h>
#include <lockstep/train/callback.h>
#include <lockstep/train/find_lr.h>
#include <lockstep/train/fit_loop.h>
#include <lockstep/train/loss.h>
#include <lockstep/train/optional_ref.h>
#include <lockstep/train/passes.h>
#include <lockstep/train/prepared.h>
#include <lockstep/train/recovery.h>
#include <lockstep/train/trainer_options.h>

namespace lockstep::train {

/// Computes the loss of a batch, which is on model.device(). The loss is a tensor of one element (the mean over the
/// batch's rows), or a WeightedMean, which has its own weight. With several processes it covers this process's rows.
/// With .parallel = {.loss = ProcessLoss::sum} a tensor is instead this process's part of a sum, such as the sum of its
/// rows' losses divided by model.batch_rows(); results then have the same bits for any number of processes. The
/// function is also called for validation, without gradients and in evaluation mode. Means that it adds to `metrics`
/// are reported.
template <class M, class Batch>
class LossFunction : public std::function<Loss(Prepared<M>& model, Batch& batch, Metrics& metrics)> {
  using Function = std::function<Loss(Prepared<M>& model, Batch& batch, Metrics& metrics)>;

 public:
  LossFunction() = default;  ///< No loss function.
  LossFunction(std::nullptr_t) {}
  /// Takes a function with these arguments. Any other type does not compile, and the error says what to write instead.
  template <class F>
  requires(!std::derived_from<std::remove_cvref_t<F>, LossFunction>) LossFunction(F&& loss) {
    using Given = std::remove_cvref_t<F>;
    if constexpr (std::derived_from<Given, nn::ModuleBase>)
      static_assert(detail::kNever<F>,
                    "a criterion is not a loss function: write train::criterion(nn::CrossEntropyLoss())");
    else if constexpr (std::is_invocable_r_v<Loss, Given&, Prepared<M>&, Batch&, Metrics&>)
      Function::operator=(std::forward<F>(loss));
    else if constexpr (std::is_invocable_v<Given&, Prepared<M>&, Batch&, Metrics&>)
      static_assert(detail::kNever<F>,
                    "a loss function must return a Tensor of one element, the mean over the batch's rows, or a "
                    "WeightedMean. A number, as item() returns it, has no gradient");
    else
      static_assert(detail::kNever<F>,
                    "a loss function takes three arguments: write [](auto& model, auto& batch, auto& metrics) "
                    "{...}, or train::criterion(nn::mse_loss)");
  }
};

/// A further loss, and the optimizer that uses its gradients.
template <class M, class Batch>
struct Objective {
  std::string name;             ///< Its mean is <name>_loss in the history.
  LossFunction<M, Batch> loss;  ///< Computes it for a batch.
  OptionalRef<optim::Optimizer> optimizer;
  OptionalRef<optim::Schedule> schedule = nullptr;
};

/// Arguments of fit(): the loss and the optimizer, and optional ones.
template <class M, class Batch>
struct FitOptions {
  LossFunction<M, Batch> loss;                       ///< A lambda, or train::criterion().
  OptionalRef<optim::Optimizer> optimizer;           ///< Updates the module's parameters.
  OptionalRef<optim::Schedule> schedule = nullptr;   ///< Sets the optimizer's learning rate.
  ScheduleStep schedule_step = ScheduleStep::epoch;  ///< When the schedule steps.
  /// Instead of a schedule: at the end of each epoch it steps with the metric plateau_monitor.
  OptionalRef<optim::ReduceLROnPlateau> plateau = nullptr;
  std::string plateau_monitor = "validation_loss";  ///< A column of the history.
  /// Further objectives, such as the loss of a GAN's generator. Each step runs the loss first, and then these in order,
  /// each on all batches of the step. After each objective, its optimizer takes a step, and all gradients are cleared.
  std::vector<Objective<M, Batch>> also = {};
  Batches<Batch> validation = {};  ///< The loader for validation, with batches of the same type.
  Callbacks callbacks = {};        ///< They must outlive fit().
};

namespace detail {
[[noreturn]] LOCKSTEP_API void throw_no_loss();
/// Throws InvalidArgument if the loader has another share than `expected`. A loader without a share is accepted.
LOCKSTEP_API void check_loader_share(const LoaderHandle& loader, const data::BatchShare& expected);
/// The means over the rows of all processes.
LOCKSTEP_API std::map<std::string, double> means_over_all(const World& world, Metrics& metrics);
[[noreturn]] LOCKSTEP_API void refuse_prediction(const World& world);
[[noreturn]] LOCKSTEP_API void refuse_further_objectives();
/// Sets evaluation mode and records no gradients during its lifetime; the destructor restores every module's mode.
class LOCKSTEP_API EvalModeGuard {
 public:
  explicit EvalModeGuard(nn::ModuleBase& module);
  ~EvalModeGuard();
  EvalModeGuard(const EvalModeGuard&) = delete;
  EvalModeGuard& operator=(const EvalModeGuard&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Calls the model for a prediction: with the batch, or with the first part of a batch that is a tuple.
template <class M>
struct PredictForward {
  template <class Batch>
  decltype(auto) operator()(Prepared<M>& model, Batch& batch) const {
    if constexpr (requires { std::tuple_size<Batch>::value; })
      return model(std::get<0>(batch));
    else
      return model(batch);
  }
};
}  // namespace detail

/// Trains models with given options on given devices. A plain value: it can be copied, and owns no model.
class LOCKSTEP_API Trainer {
 public:
  /// Throws InvalidArgument for options out of range, and for devices that do not exist.
  explicit Trainer(TrainerOptions options);

  const TrainerOptions& options() const noexcept { return options_; }  ///< As given to the constructor.
  /// The devices that modules are put on; batches and losses are on the first one.
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

  /// Trains for max_epochs. The module is moved to the first device and stays there; its training mode is restored at
  /// the end, also after an error. One step takes `accumulate` batches, fewer at the end of an epoch. Its gradient is
  /// that of one batch of all their rows: losses that are tensors are weighted by rows (along parallel.scatter.dim),
  /// WeightedMeans by their weights. A step of total weight 0 has gradients of 0 and is left out of the means.
  ///
  /// The history has a row every log_every steps and one at the end of each epoch: epoch, step, seconds, lr, and the
  /// loss and each metric with the prefixes train_ and validation_. These are means by rows, or by the weights of
  /// WeightedMeans: within an epoch over the steps since the previous row, at its end over the whole epoch. NaN if the
  /// total weight is 0.
  ///
  /// Throws InvalidArgument for arguments that do not fit together, before anything has changed. Also throws Diverged,
  /// and the errors of the loss function, the loaders, DataParallel and checkpoints. After an error the devices'
  /// streams hold no further errors. If a GPU fails for good, throws its error, unless TrainerOptions::on_lost_device
  /// is resume.
  ///
  /// With an options.parallel.world of several processes, all of them call fit(), with equal arguments except for their
  /// rows of the batches: a loader has .share = share(), or gives each process its own batches, equally many in all
  /// processes. Means are over the rows of all processes, and the history is the same in each; only process 0 prints
  /// and writes. Invalid arguments, a loss that is not finite, and a checkpoint that cannot be written or read end
  /// fit() in all processes with the same error. After any other error of one process, the other processes end with a
  /// CollectiveError that names it, and the world has ended. All processes start with process 0's parameters and random
  /// numbers, and their random sequences stay equal as long as the loss draws equally many numbers in each.
  template <class M, class Loader>
  History fit(M& module, Loader& loader,
              const FitOptions<std::type_identity_t<M>, std::type_identity_t<BatchOf<Loader>>>& options) const {
    if (!options.loss) detail::throw_no_loss();
    for (detail::Recovery recovery(options_, devices_);;) try {
        return lockstep::detail::draining(recovery.devices(),
                                          [&] { return fit_on(recovery, module, loader, options); });
      } catch (const Error&) {
        std::vector<optim::Optimizer*> optimizers = {options.optimizer};
        for (const auto& objective : options.also) optimizers.push_back(objective.optimizer);
        recovery.go_on_or_rethrow(module, optimizers);
      }
  }

  /// The means of `loss` (named "loss") and of the metrics that it adds, over all batches, weighted as in fit();
  /// without gradients and in evaluation mode. The module is moved to the first device and stays there. With several
  /// processes all of them call it, as for fit(), and get the same means.
  template <class M, class Loader>
  std::map<std::string, double> evaluate(M& module, Loader& loader,
                                         const LossFunction<std::type_identity_t<M>, BatchOf<Loader>>& loss) const {
    if (!loss) detail::throw_no_loss();
    const Batches<BatchOf<Loader>> batches(loader);
    return fail_all_on_error([&] {
      detail::check_loader_share(batches, share());
      Prepared<M> model = prepare_model(module);
      const detail::EvalModeGuard eval_mode(module);
      Metrics metrics(model.device());
      detail::Passes<M, BatchOf<Loader>> passes(model, {{"loss", &loss}}, options_.precision);
      passes.validate(batches, metrics, [] {});
      return detail::means_over_all(options_.parallel.world, metrics);
    });
  }

  /// The outputs of the model for all batches, joined along parallel.scatter.dim, on the CPU; without gradients and in
  /// evaluation mode. `forward(model, batch)` computes them; by default the model is called with the batch, or with the
  /// first part of a batch that is a tuple. The module is moved to the first device and stays there. Throws
  /// InvalidArgument if there is no batch, and with several processes, since each would have only the rows of its own
  /// batches.
  template <class M, class Loader, class Forward = detail::PredictForward<M>>
  auto predict(M& module, Loader& loader, Forward forward = {}) const {
    if (options_.parallel.world.size() > 1) detail::refuse_prediction(options_.parallel.world);
    return fail_all_on_error([&] {
      Prepared<M> model = prepare_model(module);
      const detail::EvalModeGuard eval_mode(module);
      const detail::AutocastGuard autocast(options_.precision);
      using Output = std::decay_t<decltype(forward(model, std::declval<BatchOf<Loader>&>()))>;
      std::vector<Output> outputs;
      Batches<BatchOf<Loader>>(loader).each([&](const BatchOf<Loader>& batch) {
        auto moved = moved_to(batch, model.device());
        outputs.push_back(moved_to(Output(forward(model, moved)), Device()));
        return true;
      });
      return gather(std::move(outputs), Device(), {.dim = options_.parallel.scatter.dim, .source = "batch"},
                    "the predictions");
    });
  }

  /// Trains for num_training steps, while the learning rate grows by a constant factor from min_lr to max_lr, and
  /// records the loss of each step. Then restores module, optimizer, loader, random numbers and training modes; the
  /// module stays on the first device. Takes the options of fit(); ignores schedules, callbacks and the validation
  /// loader, and throws InvalidArgument for `also`.
  template <class M, class Loader>
  LRFinder find_lr(M& module, Loader& loader,
                   const FitOptions<std::type_identity_t<M>, std::type_identity_t<BatchOf<Loader>>>& options,
                   const FindLROptions& how = {}) const {
    if (!options.loss) detail::throw_no_loss();
    if (!options.also.empty()) detail::refuse_further_objectives();
    const Batches<BatchOf<Loader>> batches(loader);
    return fail_all_on_error([&] {
      detail::LRSweep sweep(options_, how, module, options.optimizer, batches, share());
      Prepared<M> model = prepare_model(module);
      detail::Passes<M, BatchOf<Loader>> passes(model, {{"loss", &options.loss}}, options_.precision,
                                                [&](const Tensor& loss, std::size_t) { return sweep.scaled(loss); });
      return sweep.run(model.device(), [&](Metrics& metrics, const detail::StepHooks& hooks) {
        passes.train(batches, options_.accumulate, metrics, hooks);
      });
    });
  }

 private:
  // Runs `work`. If it throws, takes the errors of the devices' streams, and makes the other processes fail too.
  template <class Work>
  auto fail_all_on_error(const Work& work) const {
    return lockstep::detail::draining(devices_, [&] {
      try {
        return work();
      } catch (...) {
        lockstep::detail::fail_processes(options_.parallel.world);
        throw;
      }
    });
  }

  // Runs fit() once, on the devices of the current attempt.
  template <class M, class Loader, class Options>
  static History fit_on(const detail::Recovery& recovery, M& module, Loader& loader, const Options& options) {
    const Batches<BatchOf<Loader>> training(loader), &validation = options.validation;
    const TrainerOptions& trainer = recovery.options();
    using Passes = detail::Passes<M, BatchOf<Loader>>;
    std::vector<detail::FitLoop::TrainedObjective> trained = {
        {.name = "", .optimizer = options.optimizer, .schedule = options.schedule}};
    std::vector<typename Passes::Objective> objectives = {{"loss", &options.loss}};
    for (const auto& objective : options.also) {
      if (!objective.loss) detail::throw_no_loss();
      trained.push_back({.name = objective.name, .optimizer = objective.optimizer, .schedule = objective.schedule});
      objectives.push_back({detail::name_of_loss(objective.name), &objective.loss});
    }
    detail::FitLoop loop(trainer, recovery.devices().front(),
                         {.module = module,
                          .trained = std::move(trained),
                          .schedule_step = options.schedule_step,
                          .plateau = options.plateau,
                          .plateau_monitor = options.plateau_monitor,
                          .training = training,
                          .validation = validation,
                          .has_validation = bool(validation.each),
                          .callbacks = options.callbacks,
                          .share = detail::share_of(trainer.parallel.world, recovery.devices().size()),
                          .notes = recovery.notes()});
    Prepared<M> model(module, recovery.devices(), trainer.parallel);
    Passes passes(model, std::move(objectives), trainer.precision,
                  [&](const Tensor& loss, std::size_t objective) { return loop.scaled(loss, objective); });
    const auto train = [&](Metrics& metrics, const detail::StepHooks& hooks) {
      passes.train(training, trainer.accumulate, metrics, hooks);
    };
    const auto validate = [&](Metrics& metrics, const std::function<void()>& next) {
      passes.validate(validation, metrics, next);
    };
    try {
      return loop.run(train, validation.each ? detail::FitLoop::Validate(validate) : nullptr);
    } catch (...) {
      lockstep::detail::fail_processes(trainer.parallel.world);
      throw;
    }
  }

  TrainerOptions options_;
  std::vector<Device> devices_;
};

}  // namespace lockstep::train
