#include <lockstep/parallel/memory_plan.h>

#include <algorithm>
#include <iomanip>
#include <numeric>
#include <ostream>
#include <unordered_set>
#include <vector>

#include <lockstep/core/error.h>

#include "core/text.h"
#include "nn/each_state.h"
#include "parallel/bucket_layout.h"

namespace lockstep {
namespace {

std::size_t bytes_of(const Tensor& tensor) { return std::size_t(tensor.numel()) * size_of(tensor.dtype()); }

void check(const char* name, int value, int least) {
  if (value < least)
    throw InvalidArgument(text("[memory_plan] expected .", name, " to be at least ", least, ", got ", value));
}

}  // namespace

MemoryPlan memory_plan(const nn::ModuleBase& module, const MemoryPlanOptions& options) {
  check("devices", options.devices, 1);
  check("processes", options.processes, 1);
  check("state_tensors", options.state_tensors, 0);
  check("buckets.whole_buckets", int(options.buckets.whole_buckets), 2);
  const auto devices = std::size_t(options.devices), ranks = devices * std::size_t(options.processes);
  MemoryPlan plan = {};
  std::vector<std::vector<Tensor>> trained;
  std::unordered_set<const TensorImpl*> seen;
  std::size_t other = 0;
  nn::for_each_state(module, [&](const nn::Path& path, const nn::State& value) {
    if (!value.defined())
      throw InvalidArgument(text("[memory_plan] expected \"", path.str(),
                                 "\" to have a shape, got a lazy one: run one batch through the module first"));
    if (!seen.insert(value.impl()).second) return;
    if (value.requires_grad())
      trained.push_back({value});
    else
      other += bytes_of(value);
  });
  for (MemoryPlan::Level& level : plan.levels) level.other = other;
  if (trained.empty()) return plan;

  std::vector<std::size_t> order(trained.size());
  std::iota(order.rbegin(), order.rend(), std::size_t(0));
  std::size_t whole = 0, largest = 0, values = 0, state = 0;
  std::size_t casts = 0, whole_casts = 0, gradient = 0, largest_used = 0;  // in 16 bits, if a bucket is cast
  const std::vector<std::vector<std::size_t>> buckets_of = divide_into_buckets(trained, order, options.buckets);
  for (const std::vector<std::size_t>& entries : buckets_of) {
    std::size_t elements = 0;
    const bool is_cast = options.autocast && trained[entries[0]][0].dtype() == kFloat32;
    for (const std::size_t e : entries) {
      const Tensor& parameter = trained[e][0];
      values += bytes_of(parameter);
      if (is_cast) casts += bytes_of(parameter) / 2;
      if (is_cast) gradient = std::max(gradient, bytes_of(parameter) / 2);
      elements += in_places(parameter.numel());
      const std::size_t tensors = std::size_t(options.state_tensors) + (size_of(parameter.dtype()) == 2);
      state += in_places(parameter.numel()) * tensors * std::max<std::size_t>(size_of(parameter.dtype()), 4);
    }
    const std::size_t bytes = padded_bucket(elements, ranks) * size_of(trained[entries[0]][0].dtype());
    whole += bytes;
    largest = std::max(largest, bytes);
    largest_used = std::max(largest_used, is_cast ? bytes / 2 : bytes);
    if (is_cast) whole_casts += bytes / 2;
  }
  const std::size_t at_once = std::min(options.buckets.whole_buckets, buckets_of.size());
  const std::size_t buffers = at_once * largest, used = at_once * largest_used;
  casts += gradient;
  plan.levels[0] = {values, whole, state, other, casts};
  plan.levels[1] = {values, whole, state / ranks, other, casts};
  plan.levels[2] = {values, whole / ranks + buffers, state / ranks, other, casts};
  plan.levels[3] = {whole / devices + used, whole / ranks + buffers, state / ranks, other,
                    whole_casts / devices + gradient};
  // The parts of other processes come to slots first, where they are converted.
  const bool has_slots = options.processes > 1;
  const std::size_t slots = has_slots ? (options.buckets.whole_buckets + 1) * largest / devices : 0;
  plan.levels[4] = {whole / ranks + used + slots, whole / ranks + buffers, state / ranks, other,
                    (has_slots ? 0 : whole_casts / ranks) + gradient};
  if (ranks == 1) plan.levels.fill({values, values, state, other, casts});  // a device alone has nothing to divide
  return plan;
}

std::ostream& operator<<(std::ostream& out, const MemoryPlan& plan) {
  const auto mebibytes = [](std::size_t bytes) {
    return text(std::fixed, std::setprecision(1), double(bytes) / (1 << 20));
  };
  const auto row = [&](const auto& name, const auto&... cells) {
    out << std::left << std::setw(16) << name << std::right;
    ((out << std::setw(12) << cells), ...);
    out << '\n';
  };
  row("MiB a device", "parameters", "gradients", "state", "other", "casts", "total");
  for (std::size_t i = 0; i < plan.levels.size(); ++i) {
    const MemoryPlan::Level& level = plan.levels[i];
    row(text(Shard(i)), mebibytes(level.parameters), mebibytes(level.gradients), mebibytes(level.optimizer_state),
        mebibytes(level.other), mebibytes(level.casts), mebibytes(level.total()));
  }
  return out;
}

}  // namespace lockstep
