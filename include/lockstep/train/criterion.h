// criterion(): a loss function for batches of inputs and a target, made from a criterion; and metrics by name.
//
//   trainer.fit(net, loader, {.loss = train::criterion(nn::CrossEntropyLoss(), {"accuracy"}), .optimizer = optimizer});
//   trainer.evaluate(net, test, train::criterion(nn::mse_loss, {"mae"}));
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/weighted_mean.h>
#include <lockstep/optim/reduce_lr_on_plateau.h>
#include <lockstep/parallel/process_pass.h>
#include <lockstep/train/loss.h>
#include <lockstep/train/metrics.h>

namespace lockstep::train {

/// The fraction of rows whose highest class is the target's. output: [rows, classes, ...], target: integers [rows,
/// ...]. Throws ShapeError for shapes that do not fit, as the other metrics do.
LOCKSTEP_API Tensor accuracy(const Tensor& output, const Tensor& target);
/// The fraction of elements where (logit > 0) == (target > 1/2). Both tensors have the same shape.
LOCKSTEP_API Tensor binary_accuracy(const Tensor& output, const Tensor& target);
/// The mean over all elements. Both tensors have the same shape; they are not broadcast.
LOCKSTEP_API Tensor mean_absolute_error(const Tensor& output, const Tensor& target);
LOCKSTEP_API Tensor mean_squared_error(const Tensor& output, const Tensor& target);

/// A metric, such as accuracy: a function that compares a model's output with the target.
struct NamedMetric {
  std::string name;
  Tensor (*of)(const Tensor& output, const Tensor& target);  ///< The mean over the batch, detached.
  optim::MetricMode mode;                                    ///< Which values are better.
};
/// "accuracy", "binary_accuracy", "mae" or "mean_absolute_error", "mse" or "mean_squared_error". Throws InvalidArgument
/// for other names.
LOCKSTEP_API NamedMetric metric_by_name(std::string_view name);
/// Which values of a history column are better: lower values for losses, and the mode of metric_by_name() for the
/// metrics that it knows. Nullopt for all other columns, such as metrics with other names that a loss function adds.
LOCKSTEP_API std::optional<optim::MetricMode> known_mode(std::string_view column);

namespace detail {
/// Returns a WeightedMean if the criterion computes one (nn::CrossEntropyLoss and nn::NLLLoss do), else a tensor.
template <class F>
Loss loss_of(F& criterion, const Tensor& output, const Tensor& target) {
  if constexpr (requires { WeightedMean(criterion.mean(output, target)), criterion.options().reduction; })
    if (criterion.options().reduction == Reduction::mean) return criterion.mean(output, target);
  return criterion(output, target);
}
}  // namespace detail

/// A loss function for FitOptions and Trainer::evaluate(). The last part of a batch is the target; the other parts are
/// the model's arguments. Made by criterion().
template <class F>
class CriterionLoss {
 public:
  CriterionLoss(F criterion, const std::vector<std::string>& metrics)
      : criterion_(std::make_shared<F>(std::move(criterion))) {
    for (const std::string& name : metrics) metrics_.push_back(metric_by_name(name));
  }

  /// The loss of a batch.
  template <class Model, class Batch>
  Loss operator()(Model& model, Batch& batch, Metrics& metrics) const {
    constexpr std::size_t kInputs = std::tuple_size_v<Batch> - 1;
    const Tensor output = [&]<std::size_t... i>(std::index_sequence<i...>) {
      return Tensor(model(std::get<i>(batch)...));
    }
    (std::make_index_sequence<kInputs>());
    const Tensor& target = std::get<kInputs>(batch);
    if constexpr (requires { criterion_->to(output.device()); }) criterion_->to(output.device());
    for (const NamedMetric& metric : metrics_) metrics.add(metric.name, metric.of(output.detach(), target));
    const bool is_part = model.process_loss() == ProcessLoss::sum && model.world().size() > 1;
    if (is_part && model.own_rows() == 0) return sum(output);  // 0, because there are no rows; backward() still works
    const Loss loss = detail::loss_of(*criterion_, output, target);
    const Tensor* const mean = std::get_if<Tensor>(&loss);
    return is_part && mean ? *mean * (double(model.own_rows()) / double(model.batch_rows())) : loss;
  }

 private:
  std::shared_ptr<F> criterion_;
  std::vector<NamedMetric> metrics_;
};

/// `criterion`: a module such as nn::CrossEntropyLoss(), or a function of an output and a target. Its loss is the mean
/// over the batch's rows, or a WeightedMean. The mean of nn::CrossEntropyLoss and nn::NLLLoss, and of their functional
/// forms, is weighted by the targets that are not ignored. `metrics`: names of metric_by_name(), which throws
/// InvalidArgument for other names.
template <class F>
CriterionLoss<std::decay_t<F>> criterion(F&& criterion, const std::vector<std::string>& metrics = {}) {
  return {std::forward<F>(criterion), metrics};
}
/// Takes a function that has options, such as nn::mse_loss, and calls it with its default options.
template <class Options>
auto criterion(Tensor (*function)(const Tensor&, const Tensor&, Options),
               const std::vector<std::string>& metrics = {}) {
  return criterion(
      [function](const Tensor& output, const Tensor& target) -> Loss {
        if constexpr (std::same_as<Options, const CrossEntropyOptions&>)
          if (function == &cross_entropy) return mean_cross_entropy(output, target);
        if constexpr (std::same_as<Options, const NllLossOptions&>)
          if (function == &nll_loss) return mean_nll_loss(output, target);
        return function(output, target, std::remove_cvref_t<Options>{});
      },
      metrics);
}

}  // namespace lockstep::train
