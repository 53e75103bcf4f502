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
  const std::string key(name);
  if (name == "accuracy") return {key, accuracy};
  if (name == "binary_accuracy") return {key, binary_accuracy};
  if (name == "mae" || name == "mean_absolute_error") return {key, mean_absolute_error};
  if (name == "mse" || name == "mean_squared_error") return {key, mean_squared_error};
  throw InvalidArgument(text(
      "[metrics] expected accuracy, binary_accuracy, mae (mean_absolute_error) or mse (mean_squared_error), got \"",
      name, "\": others are added by metrics.add() in a loss function"));
}

}  // namespace lockstep::train
