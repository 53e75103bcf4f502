#include <lockstep/optim/cyclic_lr.h>

#include <cmath>

#include <lockstep/optim/rule.h>

namespace lockstep::optim {
namespace {

constexpr const char* kCyclic = "CyclicLR";

}  // namespace

CyclicLR::CyclicLR(Optimizer& optimizer, const CyclicLROptions& options) : Schedule(optimizer), options_(options) {
  const double down = double(options_.step_size_down.value_or(options_.step_size_up));
  require(options_.step_size_up > 0, kCyclic, "step_size_up > 0", double(options_.step_size_up));
  require(down > 0, kCyclic, "step_size_down > 0", down);
  for (const PerGroup& rates : {options_.base_lr, options_.max_lr})
    for (const double rate : rates) require(rate >= 0, kCyclic, "base_lr and max_lr of at least 0", rate);
  for (const double momentum : {options_.base_momentum, options_.max_momentum})
    require(momentum >= 0 && momentum <= 1, kCyclic, "momenta in [0, 1]", momentum);
  expect_per_group(kCyclic, "base_lr", options_.base_lr.size());
  expect_per_group(kCyclic, "max_lr", options_.max_lr.size());
  if (options_.cycle_momentum && !optimizer.momentum())
    throw InvalidArgument(
        "[CyclicLR] cycle_momentum needs an optimizer with momentum, got one without: set .cycle_momentum = false");
  apply();
}

double CyclicLR::height(std::int64_t epoch) const {
  const auto up = double(options_.step_size_up), down = double(options_.step_size_down.value_or(options_.step_size_up));
  const double total = up + down, top = up / total;
  const double cycle = std::floor(1 + double(epoch) / total), x = 1 + double(epoch) / total - cycle;
  const double straight = x <= top ? x / top : (x - 1) / (top - 1);
  if (options_.scale_fn)
    return straight * options_.scale_fn(options_.scale_mode == ScaleMode::cycle ? cycle : double(epoch));
  if (options_.mode == CyclicMode::triangular2) return straight / std::pow(2, cycle - 1);
  if (options_.mode == CyclicMode::exp_range) return straight * std::pow(options_.gamma, double(epoch));
  return straight;
}

double CyclicLR::lr_at(std::int64_t epoch, double, std::size_t group) const {
  const double low = options_.base_lr.of(group);
  return low + (options_.max_lr.of(group) - low) * height(epoch);
}

std::optional<double> CyclicLR::momentum_at(std::int64_t epoch) const {
  if (!options_.cycle_momentum) return {};
  return options_.max_momentum - (options_.max_momentum - options_.base_momentum) * height(epoch);
}

}  // namespace lockstep::optim
