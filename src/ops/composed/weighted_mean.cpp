#include <lockstep/ops/weighted_mean.h>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/compare.h>
#include <lockstep/ops/index.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/tensor/creation.h>

#include "core/text.h"

namespace lockstep {
namespace {

Tensor number(const char* what, const Tensor& x, DType dtype) {
  if (x.numel() != 1)
    throw ShapeError(text("[WeightedMean] expected one element as ", what, ", got shape ", x.sizes()));
  return x.to(dtype).reshape({});
}

// The weight of the mean of a loss over classes: the targets that count, each times the weight of its class.
template <class Options>
Tensor weight_of(const Tensor& target, const Options& options) {
  const NoGrad guard;
  const Tensor counts = ne(target, double(options.ignore_index));
  if (!options.weight.defined()) return sum(counts.to(kFloat64));
  const Tensor classes = where(counts, target.to(kInt64), 0).reshape({-1});
  return sum(index_select(options.weight.to(kFloat64), 0, classes) * counts.reshape({-1}));
}

template <class Options>
Options summed(Options options) {
  options.reduction = Reduction::sum;
  return options;
}

}  // namespace

WeightedMean::WeightedMean(const Tensor& total, const Addend& counted)
    : sum(number("the sum", total, promote(total.dtype(), kFloat32))),
      weight(number("the weight", counted.detach(), kFloat64)) {
  if (sum.device() != weight.device())
    throw DeviceMismatch(
        text("[WeightedMean] expected sum and weight on one device, got ", sum.device(), " and ", weight.device()));
  weight.local_factors = counted.local_factors;
}

WeightedMean::WeightedMean(const Tensor& total, double counted)
    : WeightedMean(total, full({}, counted, {.dtype = kFloat64, .device = total.device()})) {}

Tensor WeightedMean::value() const { return sum / weight.to(sum.dtype()); }

WeightedMean mean_cross_entropy(const Tensor& input, const Tensor& target, const CrossEntropyOptions& options) {
  const Tensor total = cross_entropy(input, target, summed(options));
  if (!is_floating(target.dtype())) return {total, weight_of(target, options)};
  return {total, double(target.numel()) / double(input.sizes()[input.dim() == 1 ? 0 : 1])};
}

WeightedMean mean_nll_loss(const Tensor& input, const Tensor& target, const NllLossOptions& options) {
  return {nll_loss(input, target, summed(options)), weight_of(target, options)};
}

}  // namespace lockstep
