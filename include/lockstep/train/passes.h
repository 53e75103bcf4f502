// Passes: forward and backward, the part of Trainer::fit() that knows the types of a module and its batches. For the
// library.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <lockstep/autograd/autocast.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/weighted_mean.h>
#include <lockstep/train/batches.h>
#include <lockstep/train/fit_loop.h>
#include <lockstep/train/loss.h>
#include <lockstep/train/metrics.h>
#include <lockstep/train/prepared.h>
#include <lockstep/train/trainer_options.h>

namespace lockstep::train::detail {

/// Throws InvalidArgument for an undefined loss, and ShapeError unless the loss has exactly one element.
LOCKSTEP_API void check_loss(const Tensor& loss);
/// Throws an InvalidArgument that says that the loss function added a metric with the name of the loss.
[[noreturn]] LOCKSTEP_API void refuse_second_loss(const std::string& name);
/// Throws an InvalidArgument that says that a batch was changed in place before its step.
[[noreturn]] LOCKSTEP_API void refuse_changed_batch();
/// Returns the rows of each batch over all processes, given the rows of this process. The processes exchange once.
LOCKSTEP_API std::vector<std::int64_t> rows_of_all(const World& world, const std::vector<std::int64_t>& mine);

/// The autocast region of a precision; ends with the object.
class AutocastGuard {
 public:
  explicit AutocastGuard(Precision precision) {
    if (precision != Precision::float32) region_.emplace(precision == Precision::bfloat16 ? kBFloat16 : kFloat16);
  }

 private:
  std::optional<Autocast> region_;
};

template <class M, class Batch>
class Passes {
 public:
  using LossOf = std::function<Loss(Prepared<M>&, Batch&, Metrics&)>;
  /// A loss, and its column in the history.
  struct Objective {
    std::string name;
    const LossOf* loss_of;
  };
  using Scale = std::function<Tensor(const Tensor& loss, std::size_t objective)>;

  /// `scale` is applied to the root of each backward.
  Passes(Prepared<M>& model, std::vector<Objective> objectives, Precision precision, Scale scale = {})
      : model_(model), objectives_(std::move(objectives)), precision_(precision), scale_(std::move(scale)) {}

  /// Runs one epoch, in groups of `accumulate` batches, until StepHooks::end returns false. The gradients of a group
  /// are those of the mean over all rows (or weights) in it, over all processes. The objectives compute and use their
  /// gradients one after the other.
  void train(const Batches<Batch>& batches, std::int64_t accumulate, Metrics& metrics, const StepHooks& hooks) {
    std::vector<Batch> group;
    std::vector<std::int64_t> rows;  // of each batch; of all processes if the loader has rows_of_all, else of this one
    std::vector<std::vector<std::uint64_t>> versions;
    const auto finish = [&] {
      for (std::size_t i = 0; i < group.size(); ++i)
        if (versions_in(group[i]) != versions[i]) refuse_changed_batch();
      if (group.size() > 1 && !batches.rows_of_all) rows = rows_of_all(model_.world(), rows);
      hooks.begin();
      for (std::size_t o = 0; o < objectives_.size(); ++o) {
        hooks.update(o, backward(o, group, rows, metrics));
      }
      group.clear();
      rows.clear();
      versions.clear();
      return hooks.end();
    };
    bool goes_on = true;
    batches.each([&](const Batch& batch) {
      group.push_back(batch);
      rows.push_back(batches.rows_of_all ? batches.rows_of_all() : rows_in(group.back(), model_.batch_dim()));
      versions.push_back(versions_in(group.back()));
      if (std::int64_t(group.size()) == accumulate) goes_on = finish();
      return goes_on;
    });
    if (!group.empty()) finish();
  }

  void validate(const Batches<Batch>& batches, Metrics& metrics, const std::function<void()>& next) {
    batches.each([&](const Batch& batch) {
      for (const Objective& objective : objectives_) loss(objective, batch, metrics);
      next();
      return true;
    });
  }

 private:
  // Returns the factor for StepHooks::update.
  Tensor backward(std::size_t o, std::vector<Batch>& group, const std::vector<std::int64_t>& rows, Metrics& metrics) {
    StepMean mean(rows);
    const auto each = [&](const Batch& batch) {
      Loss loss = this->loss(objectives_[o], batch, metrics);
      if (auto* const weighted = std::get_if<WeightedMean>(&loss)) *weighted = model_.over_processes(*weighted);
      scale_(mean.weighted_loss(loss), o).backward();
    };
    for (std::size_t i = 0; i + 1 < group.size(); ++i) {
      const auto alone = model_.no_sync();
      each(group[i]);
    }
    each(group.back());
    return mean.correction();
  }

  Loss loss(const Objective& objective, const Batch& batch, Metrics& metrics) {
    Batch moved = moved_to(batch, model_.device());
    const std::int64_t rows = rows_in(moved, model_.batch_dim());
    if (rows == 0 && model_.world().size() > 1)
      metrics.ignore_batch();
    else
      metrics.set_rows(double(rows));
    const std::int64_t before = metrics.additions_of(objective.name);
    Loss loss;
    {
      const AutocastGuard region(precision_);
      loss = (*objective.loss_of)(model_, moved, metrics);
    }
    if (metrics.additions_of(objective.name) != before) refuse_second_loss(objective.name);
    if (const auto* const weighted = std::get_if<WeightedMean>(&loss)) {
      check_loss(weighted->sum);
      metrics.add(objective.name, *weighted);
      return loss;
    }
    const Tensor& mean = std::get<Tensor>(loss);
    check_loss(mean);
    // If is_part, the loss is this process's part of a sum over processes. The metric needs the mean over this
    // process's rows, so the loss is multiplied by all rows / own rows.
    const bool is_part =
        model_.process_loss() == ProcessLoss::sum && model_.world().size() > 1 && model_.own_rows() > 0;
    metrics.add(objective.name,
                is_part ? mean.detach() * (double(model_.batch_rows()) / double(model_.own_rows())) : mean);
    return loss;
  }

  Prepared<M>& model_;
  const std::vector<Objective> objectives_;
  const Precision precision_;
  const Scale scale_;
};

}  // namespace lockstep::train::detail
