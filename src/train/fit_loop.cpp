#include <lockstep/train/fit_loop.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_set>
#include <utility>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/optim/clip.h>

#include "core/text.h"
#include "io/path.h"
#include "tensor/tensor_impl.h"
#include "train/processes.h"

namespace lockstep::train::detail {
namespace {

// Gives every module that is still there the training mode that it had.
class ModesKept final : nn::Visitor {
 public:
  explicit ModesKept(nn::ModuleBase& module) : module_(module) { module.visit(nn::Path(), *this); }
  ~ModesKept() {
    gives_back_ = true;
    module_.visit(nn::Path(), *this);
  }
  ModesKept(const ModesKept&) = delete;
  ModesKept& operator=(const ModesKept&) = delete;

 private:
  void module(const nn::Path& path, nn::ModuleBase& module) override {
    const auto [mode, is_new] = modes_.emplace(path.str(), module.is_training());
    if (gives_back_ && !is_new) module.set_mode(mode->second);
  }

  nn::ModuleBase& module_;
  bool gives_back_ = false;
  std::map<std::string, bool> modes_;
};

std::vector<Tensor> parameters_of(const optim::Optimizer& optimizer) {
  std::vector<Tensor> all;
  for (std::size_t g = 0; g < optimizer.group_count(); ++g)
    all.insert(all.end(), optimizer.parameters(g).begin(), optimizer.parameters(g).end());
  return all;
}

// An optimizer of a copy would train nothing, and nobody would notice; nor one whose parameters the module had before
// something else was put in their place. Parameters of something beside the module may be among them.
// But a checkpoint would not have their values.
void check_optimizer(const optim::Optimizer& optimizer, const nn::ModuleBase& module, bool has_folder) {
  std::unordered_set<const TensorImpl*> there;
  for (const Tensor& parameter : module.parameters()) there.insert(parameter.impl());
  bool any = false;
  for (std::size_t g = 0; g < optimizer.group_count(); ++g)
    for (const Tensor& parameter : optimizer.parameters(g)) {
      const bool trained = there.contains(parameter.impl());
      any = any || trained;
      if (!trained && has_folder)
        throw InvalidArgument(
            text("[trainer] expected, for checkpoints, an optimizer of the module's parameters alone, "
                 "got one of shape ",
                 parameter.sizes(), " beside them: make it a member"));
      if (!trained && parameter.impl()->references == 1)
        throw InvalidArgument(text("[trainer] expected an optimizer of parameters that somebody has, got one of shape ",
                                   parameter.sizes(),
                                   " that the module lost before: make the optimizer after the module is complete"));
    }
  if (!any) throw InvalidArgument("[trainer] expected an optimizer of the module's parameters, got one of others");
}

void check_loader(const LoaderHandle& training, bool has_folder) {
  if (training.size && training.size() == 0)
    throw InvalidArgument("[trainer] expected a loader of at least one batch, got none");
  if (has_folder && !(training.size && training.state))
    throw InvalidArgument("[trainer] expected a loader with size(), state() and load_state() for checkpoints");
}

void check_folder(const CheckpointOptions& options) {
  check_path("trainer", options.folder);
  if (options.folder.empty() || options.resume) return;
  if (const auto found = latest_checkpoint(options.folder))
    throw InvalidArgument(text("[trainer] expected .resume = true or a folder without checkpoints, got ", *found));
}

void check_share(const LoaderHandle& loader, const data::BatchShare& expected) {
  const auto named = [](const data::BatchShare& share) {
    return text("that of process ", share.process, " of ", share.processes, " with ", share.devices, " devices each");
  };
  if (loader.share && *loader.share != expected)
    throw InvalidArgument(text("[trainer] expected loaders with .share = trainer.share(), ", named(expected), ", got ",
                               named(*loader.share)));
}

bool divides(std::int64_t every, std::int64_t count) { return every > 0 && count % every == 0; }

// The loss first.
std::vector<History::Value> named(const std::string& prefix, const std::vector<Mean>& means) {
  std::vector<History::Value> values;
  for (const Mean& mean : means) values.push_back({prefix + mean.name, mean.value});
  std::ranges::stable_partition(values, [&](const History::Value& value) { return value.column == prefix + "loss"; });
  return values;
}

}  // namespace

FitLoop::FitLoop(const TrainerOptions& options, Device device, const Parts& parts)
    : options_(options),
      world_(options.parallel.world),
      device_(device),
      parts_(parts),
      metrics_(device),
      progress_(world_.is_first() ? options.progress : ProgressOptions{.out = nullptr}) {
  alike("the beginning of training", [this] {
    check_parts();
    return settings();
  });
  if (options.precision == Precision::float16) scaler_.emplace();
  expect_steps_from(0);
}

std::vector<std::string> FitLoop::together(const char* what, const std::function<std::string()>& f) {
  all_threw_ = true;
  std::vector<std::string> results = detail::together(world_, what, f);
  all_threw_ = false;
  return results;
}

void FitLoop::alike(const char* what, const std::function<std::string()>& f) {
  const std::vector<std::string> results = together(what, f);
  all_threw_ = true;
  check_same(world_, results);
  all_threw_ = false;
}

void FitLoop::check_parts() const {
  check_optimizer(parts_.optimizer, parts_.module, !options_.checkpoint.folder.empty());
  check_loader(parts_.training, !options_.checkpoint.folder.empty());
  check_share(parts_.training, parts_.share);
  check_share(parts_.validation, parts_.share);
  check_folder(options_.checkpoint);
  if (parts_.schedule && &parts_.schedule->optimizer() != &parts_.optimizer)
    throw InvalidArgument("[trainer] expected a schedule of the optimizer that trains, got one of another");
}

std::string FitLoop::settings() const {
  const auto batches = [](const LoaderHandle& loader) { return loader.size ? loader.size() : -1; };
  const CheckpointOptions& kept = options_.checkpoint;
  return text("devices ", parts_.share.devices, "\nmax_epochs ", options_.max_epochs, "\naccumulate ",
              options_.accumulate, "\nbatches in an epoch ", batches(parts_.training), "\nbatches of validation ",
              batches(parts_.validation), "\nlog_every ", options_.log_every, "\nprecision ", int(options_.precision),
              "\ngradient_clip_val ", options_.gradient_clip_val, "\ngradient_clip_algorithm ",
              int(options_.gradient_clip_algorithm), "\nstop_if_not_finite ", options_.stop_if_not_finite,
              "\ncheckpoints ", !kept.folder.empty(), "\ncheckpoint.every_steps ", kept.every_steps,
              "\ncheckpoint.every_epochs ", kept.every_epochs, "\ncheckpoint.resume ", kept.resume, "\nschedules ",
              parts_.schedule != nullptr, "\nschedule_step ", int(parts_.schedule_step), '\n');
}

void FitLoop::expect_steps_from(std::int64_t batch) {
  if (!parts_.training.size) return;
  const std::int64_t left = parts_.training.size() - batch;
  steps_in_epoch_ = step_in_epoch_ + left / options_.accumulate + (left % options_.accumulate != 0);
}

History FitLoop::run(const TrainEpoch& train_epoch, const Validate& validate) {
  draw_as_first(world_);
  if (!options_.checkpoint.folder.empty()) {
    open_folder();
    for (const std::string& note : parts_.notes) history_.add_note(note);
  }
  const ModesKept modes(parts_.module);
  if (!parts_.module.is_training()) parts_.module.train();
  parts_.optimizer.zero_grad();
  while (epoch_ < options_.max_epochs) {
    train_epoch(metrics_, [this] { step(); });
    if (step_in_epoch_ == 0)
      throw InvalidArgument(
          text("[trainer] expected a loader that begins anew in each epoch, got no batch in epoch ", epoch_ + 1));
    end_epoch(validate);
  }
  return std::move(history_);
}

void FitLoop::step() {
  clip();
  lr_ = parts_.optimizer.lr();
  if (scaler_) {
    scaler_->step(parts_.optimizer);
    scaler_->update();
  } else {
    parts_.optimizer.step();
  }
  parts_.optimizer.zero_grad();
  ++step_;
  ++step_in_epoch_;
  finish_row();  // of the step before: the devices have this step to do meanwhile
  if (divides(options_.log_every, step_) && !is_last_step_of_epoch()) row_ = new_row();
  if (parts_.schedule && parts_.schedule_step == ScheduleStep::step) parts_.schedule->step();
  progress_.step(point());
  if (divides(options_.checkpoint.every_steps, step_) && !is_last_step_of_epoch()) save();
}

void FitLoop::clip() {
  if (options_.gradient_clip_val == 0) return;
  if (scaler_) scaler_->unscale_(parts_.optimizer);
  const std::vector<Tensor> parameters = parameters_of(parts_.optimizer);
  if (options_.gradient_clip_algorithm == GradientClip::norm)
    optim::clip_grad_norm_(parameters, options_.gradient_clip_val);
  else
    optim::clip_grad_value_(parameters, options_.gradient_clip_val);
}

void FitLoop::end_epoch(const Validate& validate) {
  finish_row();
  row_ = new_row();
  row_->at.ends_epoch = true;
  finish_row(validated(validate));
  if (parts_.schedule && parts_.schedule_step == ScheduleStep::epoch) parts_.schedule->step();
  ++epoch_;
  step_in_epoch_ = 0;
  expect_steps_from(0);
  if (epoch_ == options_.max_epochs || divides(options_.checkpoint.every_epochs, epoch_) ||
      divides(options_.checkpoint.every_steps, step_))
    save();
}

std::vector<MeanSum> FitLoop::validated(const Validate& validate) {
  if (!validate) return {};
  const ModesKept modes(parts_.module);
  parts_.module.eval();
  const NoGrad guard;
  Metrics metrics(device_);
  validate(metrics);
  return metrics.empty() ? std::vector<MeanSum>() : metrics.take().wait_for_sums();
}

FitLoop::Row FitLoop::new_row() {
  return {.at = point(),
          .seconds = std::round(seconds() * 1000) / 1000,
          .lr = lr_,
          .means = metrics_.empty() ? std::nullopt : std::optional(metrics_.take())};
}

void FitLoop::finish_row(std::vector<MeanSum> validation) {
  if (!row_) return;
  const Row row = *std::exchange(row_, std::nullopt);
  const Report report =
      over_all_rows(world_, {.seconds = row.seconds,
                             .training = row.means ? row.means->wait_for_sums() : std::vector<MeanSum>(),
                             .validation = std::move(validation)});
  Values values = named("train_", means_of(report.training));
  if (!values.empty()) check_finite(values.front().value, row.at.step);
  for (History::Value& value : named("validation_", means_of(report.validation))) values.push_back(std::move(value));
  if (!values.empty()) {
    Values all = {
        {"epoch", double(row.at.epoch)}, {"step", double(row.at.step)}, {"seconds", report.seconds}, {"lr", row.lr}};
    all.insert(all.end(), values.begin(), values.end());
    history_.add_row(all);
  }
  reported_step_ = row.at.step;
  progress_.report(row.at, values);
}

void FitLoop::check_finite(double loss, std::int64_t step) {
  if (!options_.stop_if_not_finite || std::isfinite(loss)) return;
  all_threw_ = true;  // all have the same mean
  throw Diverged(loss, reported_step_, step);
}

ProgressPoint FitLoop::point() const {
  return {.epoch = epoch_ + 1,
          .epochs = options_.max_epochs,
          .step = step_,
          .step_in_epoch = step_in_epoch_,
          .steps_in_epoch = steps_in_epoch_};
}

double FitLoop::seconds() const {
  return seconds_before_ + std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

}  // namespace lockstep::train::detail
