#include <lockstep/train/metrics.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/ops/join.h>
#include <lockstep/tensor/creation.h>

#include "core/text.h"

namespace lockstep::train {

PendingMeans::PendingMeans(std::vector<std::string> names, std::vector<double> weights,
                           std::vector<std::size_t> counted, Tensor sums, Stream stream)
    : names_(std::move(names)),
      weights_(std::move(weights)),
      counted_(std::move(counted)),
      sums_(std::move(sums)),
      stream_(stream),
      complete_(current_stream(sums_.device()).record()) {}

std::vector<Mean> means_of(const std::vector<MeanSum>& sums) {
  std::vector<Mean> means;
  for (const MeanSum& sum : sums) means.push_back({sum.name, sum.total / sum.weight});
  return means;
}

std::vector<MeanSum> PendingMeans::wait_for_sums() const {
  stream_.wait(complete_);
  const StreamGuard beside(stream_);
  const std::vector<double> totals = sums_.to_vector<double>();
  std::vector<MeanSum> sums;
  for (std::size_t i = 0; i < names_.size(); ++i) sums.push_back({names_[i], totals[i], weights_[i]});
  for (std::size_t i = 0; i < counted_.size(); ++i) sums[counted_[i]].weight += totals[names_.size() + i];
  return sums;
}

Metrics::Metrics(Device device) : device_(device), reading_(Stream::from_pool(device)) {}

Metrics::Sum& Metrics::sum(std::string_view name) {
  const auto found = std::ranges::find(sums_, name, &Sum::name);
  if (found != sums_.end()) return *found;
  return sums_.emplace_back(Sum{std::string(name), zeros({}, {.dtype = kFloat64, .device = device_})});
}

std::int64_t Metrics::additions_of(std::string_view name) const noexcept {
  const auto found = std::ranges::find(sums_, name, &Sum::name);
  return found == sums_.end() ? 0 : found->additions;
}

Tensor Metrics::on_device(const Tensor& x) const { return x.detach().to(device_, kFloat64).reshape({}); }

void Metrics::add(std::string_view name, const Tensor& mean, std::optional<double> weight) {
  const double counts = weight.value_or(rows_);
  if (mean.numel() != 1)
    throw ShapeError(text("[metrics] expected one element as ", name, ", got shape ", mean.sizes()));
  if (!counts_) return;
  if (!(counts >= 0 && std::isfinite(counts)))
    throw InvalidArgument(text("[metrics] expected a finite weight of at least 0 for ", name, ", got ", counts));
  if (counts == 0) return;
  const NoGrad guard;
  Sum& sum = this->sum(name);
  sum.total.add_(on_device(mean), counts);
  sum.weight += counts;
  ++sum.additions;
}

void Metrics::add(std::string_view name, const WeightedMean& mean) {
  if (!counts_) return;
  const NoGrad guard;
  const auto factors = mean.weight.local_factors.value_or(Addend::LocalFactors{1, 1});
  Sum& sum = this->sum(name);
  sum.total.add_(on_device(mean.sum), factors.sum);
  if (!sum.counted.defined()) sum.counted = zeros({}, {.dtype = kFloat64, .device = device_});
  sum.counted.add_(on_device(mean.weight), factors.weight);
  ++sum.additions;
}

PendingMeans Metrics::snapshot_and_reset() {
  if (empty())
    throw InvalidArgument("[metrics] snapshot_and_reset(): expected at least one mean, got none: call add() first");
  const NoGrad guard;
  std::vector<std::string> names;
  std::vector<double> weights;
  std::vector<Tensor> totals, counted_weights;
  std::vector<std::size_t> counted;
  for (Sum& sum : sums_) {
    if (sum.counted.defined()) counted.push_back(names.size()), counted_weights.push_back(std::move(sum.counted));
    names.push_back(std::move(sum.name));
    weights.push_back(sum.weight);
    totals.push_back(std::move(sum.total));
  }
  sums_.clear();
  totals.insert(totals.end(), counted_weights.begin(), counted_weights.end());
  return {std::move(names), std::move(weights), std::move(counted), stack(totals), reading_};
}

StateDict Metrics::state_dict() const {
  StateDict state;
  for (const MeanSum& sum : sums()) {
    const double values[] = {sum.total, sum.weight};
    state.add(sum.name, from_host(values, 2, kFloat64, {2}));
  }
  return state;
}

void Metrics::load_state_dict(const StateDict& state) {
  std::vector<MeanSum> sums;
  for (const auto& [name, values] : state) {
    if (values.dtype() != kFloat64 || values.numel() != 2)
      throw InvalidArgument(text("[metrics] expected float64 [2] (sum and weight) for ", name, ", got ", values.dtype(),
                                 ' ', values.sizes()));
    const auto numbers = values.to_vector<double>();
    sums.push_back({name, numbers[0], numbers[1]});
  }
  set_sums(sums);
}

std::vector<MeanSum> Metrics::sums() const {
  std::vector<MeanSum> sums;
  for (const Sum& sum : sums_)
    sums.push_back(
        {sum.name, sum.total.item<double>(), sum.weight + (sum.counted.defined() ? sum.counted.item<double>() : 0)});
  return sums;
}

void Metrics::set_sums(const std::vector<MeanSum>& sums) {
  std::vector<Sum> set;
  for (const MeanSum& sum : sums)
    set.push_back({sum.name, tensor(sum.total, {.dtype = kFloat64, .device = device_}), sum.weight});
  sums_ = std::move(set);
}

}  // namespace lockstep::train
