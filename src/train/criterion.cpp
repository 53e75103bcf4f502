#include <lockstep/train/criterion.h>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/ops/compare.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/unary.h>

#include "core/text.h"

namespace lockstep::train {
namespace {

void expect_same_shape(const char* metric, const Tensor& output, const Tensor& target) {
  if (output.sizes() != target.sizes())
    throw ShapeError(
        text("[", metric, "] expected an output of the target's shape ", target.sizes(), ", got ", output.sizes()));
}

std::optional<NamedMetric> find_metric(std::string_view name) {
  using enum optim::MetricMode;
  const std::string key(name);
  if (name == "accuracy") return NamedMetric{key, accuracy, max};
  if (name == "binary_accuracy") return NamedMetric{key, binary_accuracy, max};
  if (name == "mae" || name == "mean_absolute_error") return NamedMetric{key, mean_absolute_error, min};
  if (name == "mse" || name == "mean_squared_error") return NamedMetric{key, mean_squared_error, min};
  return {};
}

}  // namespace

Tensor accuracy(const Tensor& output, const Tensor& target) {
  const NoGrad guard;
  Shape without_classes;
  for (int d = 0; d < output.dim(); ++d)
    if (d != 1) without_classes.push_back(output.size(d));
  if (output.dim() < 2 || without_classes != target.sizes())
    throw ShapeError(text("[accuracy] expected an output [rows, classes, ...] for a target [rows, ...], got ",
                          output.sizes(), " for ", target.sizes()));
  return mean(eq(argmax(output, 1), target.to(kInt64)).to(kFloat32));
}

Tensor binary_accuracy(const Tensor& output, const Tensor& target) {
  const NoGrad guard;
  expect_same_shape("binary_accuracy", output, target);
  return mean(eq(gt(output, 0), gt(target.to(kFloat32), 0.5)).to(kFloat32));
}

Tensor mean_absolute_error(const Tensor& output, const Tensor& target) {
  const NoGrad guard;
  expect_same_shape("mean_absolute_error", output, target);
  return mean(abs(output.to(kFloat32) - target.to(kFloat32)));
}

Tensor mean_squared_error(const Tensor& output, const Tensor& target) {
  const NoGrad guard;
  expect_same_shape("mean_squared_error", output, target);
  const Tensor error = output.to(kFloat32) - target.to(kFloat32);
  return mean(error * error);
}

NamedMetric metric_by_name(std::string_view name) {
  if (const auto metric = find_metric(name)) return *metric;
  throw InvalidArgument(text(
      "[metrics] expected accuracy, binary_accuracy, mae (mean_absolute_error) or mse (mean_squared_error), got \"",
      name, "\". Add other metrics by metrics.add() in a loss function"));
}

std::optional<optim::MetricMode> known_mode(std::string_view column) {
  for (const std::string_view prefix : {"train_", "validation_"}) {
    if (!column.starts_with(prefix)) continue;
    const std::string_view name = column.substr(prefix.size());
    if (name == "loss" || name.ends_with("_loss")) return optim::MetricMode::min;
    if (const auto metric = find_metric(name)) return metric->mode;
  }
  return {};
}

}  // namespace lockstep::train
