#include <lockstep/train/find_lr.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/optim/clip.h>
#include <lockstep/optim/grad_scaler.h>
#include <lockstep/tensor/random.h>

#include "core/expect.h"
#include "core/text.h"
#include "distributed/same_lines.h"
#include "nn/training_mode_guard.h"
#include "train/fit_parts.h"
#include "train/processes.h"

namespace lockstep::train::detail {
namespace {

constexpr std::size_t kSkipBegin = 10, kSkipEnd = 1;  // losses left out at the ends; as Lightning does

StateDict cloned(const StateDict& state) {
  StateDict copy;
  for (const auto& [key, tensor] : state) copy.add(key, tensor.defined() ? tensor.detach().clone() : tensor);
  return copy;
}

}  // namespace

// The state to restore after the sweep.
struct LRSweep::SavedState {
  SavedState(const TrainerOptions& options, nn::ModuleBase& module, optim::Optimizer& optimizer, const LoaderHandle& of)
      : loader(of),
        modes(module),
        model(cloned(module.state_dict())),
        optimizer_state(cloned(optimizer.state_dict())),
        random(current_generator()) {
    const NoGrad guard;
    for (std::size_t g = 0; g < optimizer.group_count(); ++g)
      for (const Tensor& parameter : optimizer.parameters(g)) parameters.emplace_back(parameter, parameter.clone());
    if (of.state) loader_state = of.state();
    if (options.precision == Precision::float16) scaler.emplace();
  }

  void restore(nn::ModuleBase& module, optim::Optimizer& optimizer) {
    const NoGrad guard;
    optimizer.zero_grad();
    for (auto& [parameter, values] : parameters) parameter.copy_(values.to(parameter.device()));
    module.load_state_dict(model);
    optimizer.reset_state();
    optimizer.load_state_dict(optimizer_state);
    if (loader_state) loader.load_state(*loader_state);
    set_generator(random);
  }

  const LoaderHandle& loader;
  const nn::TrainingModeGuard modes;
  const StateDict model, optimizer_state;
  const GeneratorState random;
  // the optimizer's parameters, some possibly outside the module, and copies of their values
  std::vector<std::pair<Tensor, Tensor>> parameters;
  std::optional<data::LoaderState> loader_state;
  std::optional<optim::GradScaler> scaler;
};

LRSweep::LRSweep(const TrainerOptions& options, const FindLROptions& how, nn::ModuleBase& module,
                 optim::Optimizer& optimizer, const LoaderHandle& loader, const data::BatchShare& share)
    : options_(options), how_(how), module_(module), optimizer_(optimizer) {
  require_equal_in_all(options.parallel.world, "the beginning of find_lr", [&] {
    expect(how.min_lr > 0, "find_lr", "min_lr above 0, got ", how.min_lr);
    expect(how.max_lr > how.min_lr && std::isfinite(how.max_lr), "find_lr", "max_lr above min_lr, got ", how.max_lr);
    expect(how.num_training >= 2, "find_lr", "num_training of at least 2, got ", double(how.num_training));
    expect(how.early_stop_threshold >= 0, "find_lr", "early_stop_threshold of at least 0, got ",
           how.early_stop_threshold);
    expect(how.beta >= 0 && how.beta < 1, "find_lr", "beta in [0, 1), got ", how.beta);
    check_optimizer(optimizer, module, false);
    check_loader(loader, false);
    check_share(loader, share);
    return text("min_lr ", exact(how.min_lr), "\nmax_lr ", exact(how.max_lr), "\nnum_training ", how.num_training,
                "\nearly_stop_threshold ", exact(how.early_stop_threshold), "\nbeta ", exact(how.beta), '\n');
  });
  broadcast_generator(options.parallel.world);
  saved_ = std::make_unique<SavedState>(options, module, optimizer, loader);
}

// run() restores the state unless it throws. After an error, the destructor restores as much of the state as it can.
LRSweep::~LRSweep() {
  if (!saved_) return;
  try {
    saved_->restore(module_, optimizer_);
  } catch (...) {
  }
}

Tensor LRSweep::scaled(const Tensor& loss) const { return saved_->scaler ? saved_->scaler->scale(loss) : loss; }

double LRSweep::rate(std::int64_t step) const {
  return how_.min_lr * std::pow(how_.max_lr / how_.min_lr, double(step) / double(how_.num_training - 1));
}

LRFinder LRSweep::run(Device device, const FitLoop::TrainEpoch& train_epoch) {
  module_.train();
  optimizer_.zero_grad();
  Metrics metrics(device);
  const StepHooks hooks = {.begin = [&] { optimizer_.set_lr(rate(step_)); },
                           .update = [&](std::size_t, const Tensor& factor) { update(metrics, factor); },
                           .end = [&] { return !is_over_; }};
  while (!is_over_) {
    const std::int64_t before = step_;
    train_epoch(metrics, hooks);
    if (step_ == before && !is_over_)
      throw InvalidArgument(
          step_ == 0 ? "[find_lr] expected a loader of at least one batch, got none"
                     : "[find_lr] the loader has no batches in its second pass. Use a loader that can be iterated "
                       "again, such as data::DataLoader");
  }
  found_.suggestion = suggestion();
  saved_->restore(module_, optimizer_);
  saved_.reset();
  return std::move(found_);
}

// Records the batch's loss, then takes the step. (So the recorded loss is that of the parameters before the step.)
void LRSweep::update(Metrics& metrics, const Tensor& factor) {
  if (factor.defined()) optim::scale_grad_(parameters_of(optimizer_), factor);
  std::vector<MeanSum> own;  // empty if this process had no rows
  if (!metrics.empty()) own = metrics.snapshot_and_reset().wait_for_sums();
  const auto sums = over_all_rows(options_.parallel.world, {.training = std::move(own)}).training;
  const auto mean = std::ranges::find(sums, "loss", &MeanSum::name);
  if (mean != sums.end() && mean->weight == 0) {  // for example, all targets are padding: there is no loss
    is_over_ = ++step_ == how_.num_training;
    return optimizer_.zero_grad();
  }
  const double loss = mean == sums.end() ? NAN : mean->total / mean->weight;
  average_ = how_.beta * average_ + (1 - how_.beta) * loss;
  const std::size_t losses = smoothed_.size() + 1;  // fewer than steps, after batches without a loss
  const double smoothed = average_ / (1 - std::pow(how_.beta, double(losses)));
  const bool has_risen =
      losses > 1 && how_.early_stop_threshold > 0 && least_ > 0 && smoothed > how_.early_stop_threshold * least_;
  if (std::isfinite(loss)) {
    smoothed_.push_back(smoothed);
    const History::Value row[] = {
        {"step", double(step_ + 1)}, {"lr", rate(step_)}, {"loss", loss}, {"smoothed_loss", smoothed}};
    found_.table.add_row(row);
  }
  least_ = losses == 1 ? smoothed : std::min(least_, smoothed);
  is_over_ = !std::isfinite(loss) || has_risen || ++step_ == how_.num_training;
  if (is_over_) return;
  if (saved_->scaler) saved_->scaler->unscale_(optimizer_);
  clip_gradients(options_, optimizer_);
  if (saved_->scaler) {
    saved_->scaler->step(optimizer_);
    saved_->scaler->update();
  } else {
    optimizer_.step();
  }
  optimizer_.zero_grad();
}

// Returns the learning rate at which the smoothed loss falls most per step; nullopt if it never falls. A loss's slope
// is half the difference between the losses after and before it. The first and the last loss of those that are not left
// out have one neighbour, so there it is the difference from this neighbour. (The rate's logarithm grows by the same
// amount in each step, so the loss falls most per step where it falls most per unit of the logarithm.)
std::optional<double> LRSweep::suggestion() const {
  if (smoothed_.size() < kSkipBegin + kSkipEnd + 2) return {};
  const std::size_t end = smoothed_.size() - kSkipEnd;
  std::optional<std::size_t> steepest;
  double least = 0;
  for (std::size_t i = kSkipBegin; i < end; ++i) {
    const std::size_t before = std::max(i - 1, kSkipBegin), after = std::min(i + 1, end - 1);
    const double slope = (smoothed_[after] - smoothed_[before]) / double(after - before);
    if (slope < least) steepest = i, least = slope;
  }
  return steepest ? found_.table.column("lr")[*steepest] : std::nullopt;
}

}  // namespace lockstep::train::detail
