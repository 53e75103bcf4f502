#include <lockstep/optim/clip.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/runtime/drain.h>
#include <lockstep/tensor/creation.h>

#include "core/text.h"
#include "distributed/same_lines.h"
#include "kernels/reduce/multi_reduce.h"
#include "optim/replicas.h"
#include "tensor/copy.h"

namespace lockstep::optim {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Sums in about twice the precision of a double, because the norm must not depend on how devices shard the gradients.
struct Sum {
  LOCKSTEP_HD CompensatedSum identity() const { return {}; }
  LOCKSTEP_HD CompensatedSum combine(const CompensatedSum& a, const CompensatedSum& b) const { return a + b; }
};

struct SquareSum : Sum {
  LOCKSTEP_HD double load(double x) const { return x * x; }
};

struct PowerSum : Sum {
  double p;
  explicit PowerSum(double of) : p(of) {}
  LOCKSTEP_HD double load(double x) const { return std::pow(std::abs(x), p); }
};

struct Greatest {
  LOCKSTEP_HD CompensatedSum identity() const { return {}; }
  LOCKSTEP_HD double load(double x) const { return std::abs(x); }
  LOCKSTEP_HD CompensatedSum combine(const CompensatedSum& a, const CompensatedSum& b) const {
    return a.sum > b.sum || a.sum != a.sum ? a : b;  // if one is NaN, returns it
  }
};

// Computes result = {norm, min(1, max_norm / (norm + 1e-6))} from the parts of the norm.
struct FinishNorm {
  const CompensatedSum* parts;
  std::int64_t count;
  double* result;
  double max_norm, p;

  void operator()(const KernelContext&) const { item(0); }

  std::int64_t items() const { return 1; }
  LOCKSTEP_HD void item(std::int64_t) const {
    CompensatedSum all = {};
    for (std::int64_t i = 0; i < count; ++i) all = p == kInfinity ? Greatest().combine(all, parts[i]) : all + parts[i];
    const double total = all.value();
    const double norm = p == kInfinity ? total : p == 2 ? std::sqrt(total) : std::pow(total, 1 / p);
    const double factor = max_norm / (norm + 1e-6);
    result[0] = norm;
    result[1] = factor > 1 ? 1 : factor;
  }
};

struct Scale {
  const double* factor;
  LOCKSTEP_HD MultiplyBy bind() const { return {*factor}; }
};

struct Clamp {
  double limit;
  template <class T>
  LOCKSTEP_HD void operator()(T& g) const {
    g = g > T(limit) ? T(limit) : g < -T(limit) ? -T(limit) : g;
  }
};

// Set k has the gradients of replica k of all parameters that have a replica k with a gradient. Each set computes the
// whole norm on one device, its home, from parts: one partial sum (for the infinity norm, maximum) for each gradient,
// or for each shard of a sharded gradient. All sets combine the parts in the same order, so all norms have the same
// bits.
struct GradientSet {
  std::vector<Tensor> gradients;
  std::vector<std::size_t> indices;  // for each gradient, the index of its part; ascending
  std::vector<Tensor> parts;  // a tensor on each device of the set: CompensatedSums by index, [count, 2], float64

  // A range of parts that all processes have exchanged: parts [first, first + count) are all in the tensor in which
  // this set has its own part `own_first`.
  struct Gathered {
    std::size_t first, count, own_first;
  };
  std::vector<Gathered> gathered;
  DeviceState* home = nullptr;  // the device of the first gradient

  void add(const Tensor& gradient, std::size_t index) {
    gradients.push_back(gradient);
    indices.push_back(index);
  }

  void reduce(std::size_t count, double p) {
    for (const TensorGroup& group : by_device_and_dtype(gradients)) {
      const Tensor& to = parts_on(*group.device, count);
      std::vector<std::size_t> at;
      for (const std::size_t i : group.positions) at.push_back(indices[i]);
      visit_floating("clip_grad_norm", group.dtype, [&]<class T>() {
        const auto run = [&](const auto& reducer) {
          multi_reduce<T>("clip_grad_norm", reducer, *to.impl(), group.tensors, at);
        };
        p == 2 ? run(SquareSum()) : p == kInfinity ? run(Greatest()) : run(PowerSum{p});
      });
    }
  }

  const Tensor& parts_on(DeviceState& device, std::size_t count) {
    for (const Tensor& there : parts)
      if (there.impl()->storage->device == &device) return there;
    return parts.emplace_back(make_tensor(device, {std::int64_t(count), 2}, kFloat64));
  }

  // The tensor that holds part `index`, or null if the set does not have it.
  const Tensor* tensor_with_part(std::size_t index) {
    for (const Gathered& range : gathered)
      if (index >= range.first && index < range.first + range.count) index = range.own_first;
    const auto at = std::lower_bound(indices.begin(), indices.end(), index);
    if (at == indices.end() || *at != index) return nullptr;
    return &parts_on(*gradients[std::size_t(at - indices.begin())].impl()->storage->device, 0);
  }
};

// A model that is sharded over several processes. The parts of its shards are in the order of the ranks.
struct DividedModel {
  autograd::ReplicatedParameter* any;       // one of its parameters
  std::vector<std::vector<Tensor>> shards;  // for each set, its shards of the gradients
  std::size_t first = 0;                    // the index of its first part

  std::size_t each() const { return shards[0].size(); }
  std::size_t count() const { return any->shard_layout()->shards.size() * each(); }
  std::size_t first_of(std::size_t set) const { return first + (any->shard_layout()->first_rank + set) * each(); }
};

DividedModel& model_of(const Tensor& parameter, std::vector<DividedModel>& models) {
  autograd::ReplicatedParameter* const own = autograd::replica_of(parameter)->parameter;
  for (DividedModel& model : models)
    if (model.any->listener() == own->listener()) return model;
  return models.emplace_back(DividedModel{own, std::vector<std::vector<Tensor>>(own->replicas().size())});
}

// Numbers the parts: first those of whole gradients, then those of shards, set by set, so that few copies collect them.
std::vector<GradientSet> gradient_sets(std::span<const Tensor> parameters, std::vector<DividedModel>& models,
                                       std::size_t& count) {
  std::vector<GradientSet> sets;
  std::vector<std::vector<Tensor>> shards;  // for each set
  std::size_t next = 0;
  const std::vector<Tensor> gradients = gradients_of_all_replicas("clip_grad_norm_", parameters);
  for (const Tensor& parameter : parameters) {
    if (!gradient_of(parameter)) continue;
    const bool sharded = is_sharded(parameter);
    const std::size_t replicas = replica_count(parameter);
    if (sets.size() < replicas) sets.resize(replicas), shards.resize(replicas);
    for (std::size_t k = 0; k < replicas; ++k) {
      const Tensor& gradient = gradients[next++];
      if (!sets[k].home) sets[k].home = gradient.impl()->storage->device;
      if (shard_layout_of(parameter))
        model_of(parameter, models).shards[k].push_back(gradient);
      else
        sharded ? shards[k].push_back(gradient) : sets[k].add(gradient, count);
    }
    if (!sharded) ++count;
  }
  for (std::size_t k = 0; k < sets.size(); ++k)
    for (const Tensor& shard : shards[k]) sets[k].add(shard, count++);
  for (DividedModel& model : models) {
    model.first = count;
    for (std::size_t k = 0; k < model.shards.size(); ++k)
      for (std::size_t i = 0; i < model.each(); ++i) sets[k].add(model.shards[k][i], model.first_of(k) + i);
    count += model.count();
  }
  return sets;
}

// All-gathers the parts of the model's shards: afterwards each set of this process has the parts of all ranks.
void gather(const DividedModel& model, std::span<GradientSet> sets) {
  std::vector<Tensor> own, parts;
  for (std::size_t k = 0; k < model.shards.size(); ++k) {
    parts.push_back(sets[k].parts_on(*model.shards[k][0].impl()->storage->device, 0));
    own.push_back(parts[k].narrow(0, std::int64_t(model.first_of(k)), std::int64_t(model.each())));
  }
  const std::vector<Tensor> all = model.any->all_gather_numbers(own);
  for (std::size_t k = 0; k < all.size(); ++k) {
    const auto count = std::int64_t(model.count());
    copy_values(parts[k].narrow(0, std::int64_t(model.first), count), all[k].view({count, 2}));
    sets[k].gathered.push_back({model.first, model.count(), model.first_of(k)});
  }
}

// Returns all parts on the set's home device: the set's own parts, and each other part from the first set that has it.
Tensor parts_at_home(GradientSet& set, std::span<GradientSet> sets, std::size_t total) {
  std::vector<const Tensor*> sources;
  for (std::size_t i = 0; i < total; ++i) {
    const Tensor* source = set.tensor_with_part(i);
    for (std::size_t k = 0; !source; ++k) source = sets[k].tensor_with_part(i);
    sources.push_back(source);
  }
  const auto count = std::int64_t(sources.size());
  Tensor parts;
  for (std::int64_t from = 0, to = 0; from < count; from = to) {  // each round copies a run of parts of one source
    const Tensor& source = *sources[std::size_t(from)];
    while (to < count && sources[std::size_t(to)] == &source) ++to;
    if (to - from == count && source.impl()->storage->device == set.home) return source;
    if (!parts.defined()) parts = make_tensor(*set.home, {count, 2}, kFloat64);
    copy_values(parts.narrow(0, from, to - from), source.narrow(0, from, to - from));
  }
  return parts;
}

// Returns {norm, factor}, computed on the set's home device.
Tensor finish(GradientSet& set, std::span<GradientSet> sets, std::size_t count, double max_norm, double p) {
  const Tensor parts = parts_at_home(set, sets, count);
  const Tensor result = make_tensor(*set.home, {2}, kFloat64);
  const FinishNorm kernel{reinterpret_cast<const CompensatedSum*>(parts.impl()->data()), parts.size(0),
                          reinterpret_cast<double*>(result.impl()->data()), max_norm, p};
  launch("clip_grad_norm_finish", double(parts.numel()), result, std::array{&parts}, kernel);
  return result;
}

void scale(const GradientSet& set, const Tensor& result) {
  for (const TensorGroup& group : by_device_and_dtype(set.gradients)) {
    const Tensor here = group.device == set.home ? result : copied(result, *group.device, kFloat64);
    const auto* const factor = reinterpret_cast<const double*>(here.impl()->data()) + 1;
    change_elements("clip_grad_norm_scale", 1, Scale{factor}, group, here.impl());
  }
}

[[noreturn]] void rethrow_drained(std::span<const Tensor> parameters) {
  std::vector<Device> devices;
  add_devices(devices, parameters);
  lockstep::detail::rethrow_drained(devices);
}

}  // namespace

Tensor clip_grad_norm_(std::span<const Tensor> parameters, double max_norm, const ClipOptions& options) try {
  const double p = options.norm_type;
  if (!(max_norm >= 0)) throw InvalidArgument(text("[clip_grad_norm_] expected max_norm >= 0, got ", max_norm));
  if (!(p > 0)) throw InvalidArgument(text("[clip_grad_norm_] expected norm_type > 0, got ", p));
  check_defined("clip_grad_norm_", parameters);
  note_call(parameters, [&] {
    return text("clip_grad_norm_() of ", parameters.size(), " parameters to ", exact(max_norm), ", norm_type ",
                exact(p), '\n');
  });
  const NoGrad guard;
  std::size_t count = 0;
  std::vector<DividedModel> models;
  std::vector<GradientSet> sets = gradient_sets(parameters, models, count);
  if (sets.empty()) {
    if (parameters.empty()) return zeros({});
    return zeros({}, parameters[0].options());
  }

  DType dtype = sets[0].gradients.front().dtype();
  for (const Tensor& gradient : sets[0].gradients) dtype = promote(dtype, gradient.dtype());
  for (GradientSet& set : sets) set.reduce(count, p);
  for (const DividedModel& model : models) gather(model, sets);
  std::vector<Tensor> results;
  for (GradientSet& set : sets) results.push_back(finish(set, sets, count, max_norm, p));
  const Tensor norm = results[0].select(0, 0);
  if (options.error_if_nonfinite)
    if (const auto value = norm.item<double>(); !std::isfinite(value))
      throw AutogradError(text("[clip_grad_norm_] expected a finite norm of the gradients, got ", value));
  for (std::size_t k = 0; k < sets.size(); ++k) scale(sets[k], results[k]);
  return norm.to(dtype);
} catch (...) {
  rethrow_drained(parameters);
}

void scale_grad_(std::span<const Tensor> parameters, const Tensor& factor) try {
  if (factor.numel() != 1)
    throw ShapeError(text("[scale_grad_] expected a factor of one element, got shape ", factor.sizes()));
  if (!is_floating(factor.dtype()))
    throw DTypeError(text("[scale_grad_] expected a floating factor, got ", factor.dtype()));
  const NoGrad guard;
  const std::vector<Tensor> gradients = gradients_of_all_replicas("scale_grad_", parameters);
  for (const TensorGroup& group : by_device_and_dtype(gradients)) {
    const Tensor here = copied(factor, *group.device, kFloat64);
    change_elements("scale_grad", 1, Scale{reinterpret_cast<const double*>(here.impl()->data())}, group, here.impl());
  }
} catch (...) {
  rethrow_drained(parameters);
}

void clip_grad_value_(std::span<const Tensor> parameters, double clip_value) try {
  if (!(clip_value >= 0)) throw InvalidArgument(text("[clip_grad_value_] expected clip_value >= 0, got ", clip_value));
  check_defined("clip_grad_value_", parameters);
  note_call(parameters, [&] {
    return text("clip_grad_value_() of ", parameters.size(), " parameters to ", exact(clip_value), '\n');
  });
  const NoGrad guard;
  const std::vector<Tensor> gradients = gradients_of_all_replicas("clip_grad_value_", parameters);
  for (const TensorGroup& group : by_device_and_dtype(gradients))
    change_elements("clip_grad_value", 1, Clamp{clip_value}, group);
} catch (...) {
  rethrow_drained(parameters);
}

}  // namespace lockstep::optim
