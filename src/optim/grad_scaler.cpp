#include <lockstep/optim/grad_scaler.h>

#include <cmath>
#include <numeric>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/optim/optimizer.h>
#include <lockstep/optim/rule.h>
#include <lockstep/runtime/drain.h>
#include <lockstep/tensor/creation.h>

#include "distributed/same_lines.h"
#include "kernels/reduce/multi_reduce.h"
#include "optim/replicas.h"
#include "optim/state_reader.h"

namespace lockstep::optim {
namespace {

struct CountNonFinite {
  LOCKSTEP_HD CompensatedSum identity() const { return {}; }
  LOCKSTEP_HD double load(double x) const { return x - x == 0 ? 0 : 1; }
  LOCKSTEP_HD CompensatedSum combine(CompensatedSum a, CompensatedSum b) const { return {a.sum + b.sum, 0}; }
};

void check(const GradScalerOptions& o) {
  require(o.init_scale > 0 && std::isfinite(o.init_scale), "GradScaler", "a finite init_scale > 0", o.init_scale);
  require(o.growth_factor > 1, "GradScaler", "growth_factor > 1", o.growth_factor);
  require(o.backoff_factor > 0 && o.backoff_factor < 1, "GradScaler", "backoff_factor in (0, 1)", o.backoff_factor);
  require(o.growth_interval > 0, "GradScaler", "growth_interval > 0", double(o.growth_interval));
}

// Multiplies the gradients by `factor`. Returns the number of elements of each gradient that were not finite, as
// tensors on the gradients' devices.
std::vector<Tensor> unscaled(std::span<const Tensor> gradients, double factor) {
  std::vector<Tensor> notes;
  for (const TensorGroup& group : by_device_and_dtype(gradients)) {
    const Tensor& note =
        notes.emplace_back(make_tensor(*group.device, {std::int64_t(group.tensors.size()), 2}, kFloat64));
    std::vector<std::size_t> indices(group.tensors.size());
    std::iota(indices.begin(), indices.end(), std::size_t(0));
    visit_floating("unscale", group.dtype, [&]<class T>() {
      multi_reduce<T>("unscale_check", CountNonFinite(), *note.impl(), group.tensors, indices);
    });
    change_elements("unscale", 1, MultiplyBy{factor}, group);
  }
  return notes;
}

// For each model that is sharded over several processes, adds a tensor with the counts of all processes.
void add_notes_of_others(std::span<const Tensor> parameters, std::vector<Tensor>& notes) {
  const std::vector<Tensor> here = notes;
  for (autograd::ReplicatedParameter* const model : divided_models(parameters)) {
    std::vector<Tensor> found;
    for (const autograd::Replica& replica : model->replicas()) {
      Tensor& all = found.emplace_back(zeros({1}, {.dtype = kFloat64, .device = replica.tensor.device()}));
      for (const Tensor& note : here)
        if (note.device() == all.device()) all = all + sum(note);
    }
    notes.push_back(model->all_gather_numbers(found)[0]);
  }
}

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options) : options_(options), scale_(options.init_scale) {
  check(options);
}

Tensor GradScaler::scale(const Tensor& loss) const { return options_.enabled ? loss * scale_ : loss; }

void GradScaler::unscale_(Optimizer& optimizer) {
  if (!options_.enabled) return;
  Progress& progress = progress_[&optimizer];
  check_not_failed(progress);
  if (progress.unscaled || progress.stepped)
    throw InvalidArgument(text("[GradScaler] expected update() before the next unscale_() of this optimizer, got ",
                               progress.stepped ? "unscale_() after step()" : "unscale_() twice"));
  const NoGrad guard;
  std::vector<Device> devices;
  try {
    std::vector<Tensor> parameters;
    for (std::size_t g = 0; g < optimizer.group_count(); ++g)
      for (const Tensor& parameter : optimizer.parameters(g)) parameters.push_back(parameter);
    add_devices(devices, parameters);
    note_call(parameters, [&] { return text("GradScaler.unscale_() by ", exact(scale_), '\n'); });
    progress.notes = unscaled(gradients_of_all_replicas("GradScaler", parameters), 1 / scale_);
    add_notes_of_others(parameters, progress.notes);
    progress.unscaled = true;
  } catch (...) {
    progress.failed = true;
    lockstep::detail::rethrow_drained(devices);
  }
}

// The gradients may be unscaled, or some of them.
void GradScaler::check_not_failed(const Progress& progress) {
  if (progress.failed)
    throw InvalidArgument(
        "[GradScaler] expected update() or load_state_dict() after a step() or unscale_() that failed, got another "
        "one: "
        "call update(), and backward() with new gradients");
}

bool GradScaler::found(Progress& progress) {
  for (const Tensor& note : progress.notes) progress.found |= sum(note).item<double>() != 0;
  progress.notes.clear();
  return progress.found;
}

bool GradScaler::step(Optimizer& optimizer) {
  if (!options_.enabled) return optimizer.step(), true;
  check_not_failed(progress_[&optimizer]);
  if (progress_[&optimizer].stepped)
    throw InvalidArgument("[GradScaler] expected update() before the next step() of this optimizer, got step() twice");
  if (!progress_[&optimizer].unscaled) unscale_(optimizer);
  Progress& progress = progress_[&optimizer];
  progress.failed = true;
  const bool skipped = found(progress);
  if (!skipped) optimizer.step();
  progress.failed = false;
  progress.stepped = true;
  return !skipped;
}

void GradScaler::update() {
  if (!options_.enabled) return;
  if (progress_.empty())
    throw InvalidArgument("[GradScaler] expected step() or unscale_() before update(), got update() without them");
  bool skipped = false;
  std::map progress = std::exchange(progress_, {});
  for (auto& [optimizer, own] : progress) skipped |= found(own);
  if (skipped) {
    scale_ *= options_.backoff_factor;
    growth_tracker_ = 0;
  } else if (++growth_tracker_ == options_.growth_interval) {
    if (const double grown = scale_ * options_.growth_factor; std::isfinite(float(grown))) scale_ = grown;
    growth_tracker_ = 0;
  }
}

StateDict GradScaler::state_dict() const {
  StateDict dict;
  if (!options_.enabled) return dict;
  dict.add("scale", number_tensor(scale_));
  dict.add("growth_factor", number_tensor(options_.growth_factor));
  dict.add("backoff_factor", number_tensor(options_.backoff_factor));
  dict.add("growth_interval", number_tensor(double(options_.growth_interval)));
  dict.add("growth_tracker", number_tensor(double(growth_tracker_)));
  return dict;
}

void GradScaler::load_state_dict(const StateDict& state) {
  if (!options_.enabled) return;
  StateReader reader(state);
  GradScalerOptions options = options_;
  double interval = 0, tracker = 0;
  reader.number("scale", options.init_scale);
  reader.number("growth_factor", options.growth_factor);
  reader.number("backoff_factor", options.backoff_factor);
  if (reader.number("growth_interval", interval)) options.growth_interval = std::int64_t(interval);
  reader.number("growth_tracker", tracker);
  reader.finish("GradScaler");
  check(options);
  scale_ = std::exchange(options.init_scale, options_.init_scale);
  options_ = options;
  growth_tracker_ = std::int64_t(tracker);
  progress_.clear();
}

}  // namespace lockstep::optim
