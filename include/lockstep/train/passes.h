// Passes: the part of Trainer::fit() that knows the types of a module and its batches: forward and backward. For the
// library.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/autograd/autocast.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/train/batches.h>
#include <lockstep/train/metrics.h>
#include <lockstep/train/prepared.h>
#include <lockstep/train/trainer_options.h>

namespace lockstep::train::detail {

/// Throws ShapeError, InvalidArgument unless it is one element.
LOCKSTEP_API void check_loss(const Tensor& loss);
/// Throws InvalidArgument: the loss function has added a metric of the name that what it returns has.
[[noreturn]] LOCKSTEP_API void refuse_second_loss();
/// Throws InvalidArgument: a batch was changed before the step that it is part of.
[[noreturn]] LOCKSTEP_API void refuse_changed_batch();
/// The rows of each batch over all processes, from those of this one. One exchange.
LOCKSTEP_API std::vector<std::int64_t> rows_of_all(const World& world, const std::vector<std::int64_t>& mine);

template <class M, class Batch>
class Passes {
 public:
  using LossOf = std::function<Tensor(Prepared<M>&, Batch&, Metrics&)>;
  using Scale = std::function<Tensor(const Tensor& loss)>;

  /// `scale` is applied to what backward starts from.
  Passes(Prepared<M>& model, const LossOf& loss_of, Precision precision, Scale scale)
      : model_(model), loss_of_(loss_of), precision_(precision), scale_(std::move(scale)) {}

  /// An epoch, in groups of `accumulate` batches. Their gradients add up to that of the mean over the rows of the
  /// group, of all processes; then calls step.
  void train(const Batches<Batch>& batches, std::int64_t accumulate, Metrics& metrics,
             const std::function<void()>& step) {
    std::vector<Batch> group;
    std::vector<std::int64_t> rows;  // of each, over all processes if the loader knows
    std::vector<std::vector<std::uint64_t>> versions;
    const auto finish = [&] {
      for (std::size_t i = 0; i < group.size(); ++i)
        if (versions_in(group[i]) != versions[i]) refuse_changed_batch();
      if (group.size() > 1 && !batches.rows_of_all) rows = rows_of_all(model_.world(), rows);
      backward(group, rows, metrics);
      group.clear();
      rows.clear();
      versions.clear();
      step();
    };
    batches.each([&](const Batch& batch) {
      group.push_back(batch);
      rows.push_back(batches.rows_of_all ? batches.rows_of_all() : rows_in(group.back()));
      versions.push_back(versions_in(group.back()));
      if (std::int64_t(group.size()) == accumulate) finish();
    });
    if (!group.empty()) finish();
  }

  void validate(const Batches<Batch>& batches, Metrics& metrics) {
    batches.each([&](const Batch& batch) { loss(batch, metrics); });
  }

 private:
  void backward(std::vector<Batch>& group, const std::vector<std::int64_t>& rows, Metrics& metrics) {
    if (group.size() == 1) return scale_(loss(group[0], metrics)).backward();
    double all = 0;
    for (const std::int64_t each : rows) all += double(each);
    for (std::size_t i = 0; i + 1 < group.size(); ++i) {
      const auto alone = model_.no_sync();
      scale_(loss(group[i], metrics) * (double(rows[i]) / all)).backward();
    }
    scale_(loss(group.back(), metrics) * (double(rows.back()) / all)).backward();
  }

  Tensor loss(const Batch& batch, Metrics& metrics) {
    Batch moved = moved_to(batch, model_.device());
    const std::int64_t rows = rows_in(moved);
    if (rows == 0 && model_.world().size() > 1)
      metrics.set_rows_elsewhere();
    else
      metrics.set_rows(double(rows));
    const double before = metrics.weight_of("loss");
    Tensor loss;
    {
      std::optional<Autocast> region;
      if (precision_ != Precision::float32) region.emplace(precision_ == Precision::bfloat16 ? kBFloat16 : kFloat16);
      loss = loss_of_(model_, moved, metrics);
    }
    check_loss(loss);
    if (metrics.weight_of("loss") != before) refuse_second_loss();
    const bool is_part = model_.process_loss() == ProcessLoss::sum && model_.world().size() > 1 && rows > 0;
    metrics.add("loss", is_part ? loss.detach() * (double(model_.batch_rows()) / double(rows)) : loss);
    return loss;
  }

  Prepared<M>& model_;
  const LossOf& loss_of_;
  const Precision precision_;
  const Scale scale_;
};

}  // namespace lockstep::train::detail
