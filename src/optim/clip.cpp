#include <lockstep/optim/clip.h>

#include <cmath>
#include <limits>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/tensor/creation.h>

#include "core/text.h"
#include "optim/places.h"
#include "tensor/copy.h"
#include "tensor/kernels/multi_reduce.h"

namespace lockstep::optim {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct SquareSum {
  double identity() const { return 0; }
  double load(double x) const { return x * x; }
  double combine(double a, double b) const { return a + b; }
};

struct PowerSum {
  double p;
  double identity() const { return 0; }
  double load(double x) const { return std::pow(std::abs(x), p); }
  double combine(double a, double b) const { return a + b; }
};

struct Greatest {
  double identity() const { return 0; }
  double load(double x) const { return std::abs(x); }
  double combine(double a, double b) const { return a > b || a != a ? a : b; }  // NaN stays
};

// From what each gradient adds to the norm and its factor: result = {norm, min(1, max_norm / (norm + 1e-6))}.
struct FinishNorm {
  std::shared_ptr<const std::vector<const double*>> parts;
  double* result;
  double max_norm, p;

  void operator()(const KernelContext&) const {
    double total = 0;
    for (const double* part : *parts) total = p == kInfinity ? Greatest().combine(total, *part) : total + *part;
    const double norm = p == kInfinity ? total : p == 2 ? std::sqrt(total) : std::pow(total, 1 / p);
    const double factor = max_norm / (norm + 1e-6);
    result[0] = norm;
    result[1] = factor > 1 ? 1 : factor;
  }
};

struct Scale {
  const double* factor;

  struct Bound {
    double factor;
    template <class T>
    LOCKSTEP_HD void operator()(T& g) const {
      g *= T(factor);
    }
  };
  LOCKSTEP_HD Bound bind() const { return {*factor}; }
};

struct Clamp {
  double limit;
  template <class T>
  LOCKSTEP_HD void operator()(T& g) const {
    g = g > T(limit) ? T(limit) : g < -T(limit) ? -T(limit) : g;
  }
};

template <class F>
void change(const char* name, const F& f, const TensorGroup& group, const TensorImpl* parameter = nullptr) {
  std::vector<MultiRow<1>> rows;
  for (const TensorImpl* tensor : group.tensors) {
    rows.push_back({tensor});
    count_change(*tensor);
  }
  visit_floating(name, group.dtype, [&]<class T>() {
    multi_map<T>(name, 1, f, *group.device, std::span<const MultiRow<1>>(rows),
                 std::span(&parameter, parameter ? 1 : 0));
  });
}

// The gradients in place k of every parameter that has one there. The norm of a lane is computed on one device, its
// home, from one number for each gradient, always in the same order: every lane comes to the same bits.
struct Lane {
  std::vector<Tensor> gradients;
  std::vector<std::size_t> indices;  // of their parameters, among those that have a gradient
  std::vector<Tensor> parts;         // float64, by index, one for each device of the lane

  DeviceState& home() const { return *gradients.front().impl()->storage->device; }

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
    return parts.emplace_back(make_tensor(device, {std::int64_t(count)}, kFloat64));
  }

  // The part of gradient i of this lane.
  const Tensor& part_of(std::size_t i) { return parts_on(*gradients[i].impl()->storage->device, 0); }
};

std::vector<Lane> lanes_of(std::span<const Tensor> parameters, std::size_t& count) {
  std::vector<Lane> lanes;
  std::size_t next = 0;
  const std::vector<Tensor> gradients = gradients_everywhere("clip_grad_norm_", parameters);
  for (const Tensor& parameter : parameters) {
    if (!gradient_of(parameter)) continue;
    const std::size_t places = place_count(parameter);
    if (lanes.size() < places) lanes.resize(places);
    for (std::size_t k = 0; k < places; ++k) {
      lanes[k].gradients.push_back(gradients[next++]);
      lanes[k].indices.push_back(count);
    }
    ++count;
  }
  return lanes;
}

// Where the lane finds the part of each gradient: its own, or the primaries' where it has none; on its home.
std::vector<Tensor> parts_at_home(Lane& lane, Lane& primaries) {
  std::vector<std::pair<Tensor, Tensor>> brought;
  const auto at_home = [&](const Tensor& parts) {
    if (parts.impl()->storage->device == &lane.home()) return parts;
    for (const auto& [from, copy] : brought)
      if (from.is_same(parts)) return copy;
    return brought.emplace_back(parts, copied(parts, lane.home(), kFloat64)).second;
  };
  std::vector<Tensor> parts;
  for (std::size_t i = 0, own = 0; i < primaries.gradients.size(); ++i) {
    const bool has = own < lane.indices.size() && lane.indices[own] == i;
    parts.push_back(at_home(has ? lane.part_of(own++) : primaries.part_of(i)));
  }
  return parts;
}

// {norm, factor} of a lane, on its home.
Tensor finish(Lane& lane, Lane& primaries, double max_norm, double p) {
  const std::vector<Tensor> parts = parts_at_home(lane, primaries);
  Tensor result = make_tensor(lane.home(), {2}, kFloat64);
  auto pointers = std::make_shared<std::vector<const double*>>();
  Accesses accesses(lane.home(), parts.size() + 1);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    pointers->push_back(reinterpret_cast<const double*>(parts[i].impl()->data()) + i);
    accesses.use(*parts[i].impl());
    accesses.add(pointers->back(), sizeof(double), AccessKind::kRead);
  }
  auto* const to = reinterpret_cast<double*>(result.impl()->data());
  accesses.add(to, 2 * sizeof(double), AccessKind::kWrite);
  lane.home().backend.launch(accesses.stream, {"clip_grad_norm_finish", double(parts.size()), accesses.list},
                             FinishNorm{std::move(pointers), to, max_norm, p});
  return result;
}

void scale(const Lane& lane, const Tensor& result) {
  for (const TensorGroup& group : by_device_and_dtype(lane.gradients)) {
    const Tensor here = group.device == &lane.home() ? result : copied(result, *group.device, kFloat64);
    const auto* const factor = reinterpret_cast<const double*>(here.impl()->data()) + 1;
    change("clip_grad_norm_scale", Scale{factor}, group, here.impl());
  }
}

}  // namespace

Tensor clip_grad_norm_(std::span<const Tensor> parameters, double max_norm, const ClipOptions& options) {
  const double p = options.norm_type;
  if (!(max_norm >= 0)) throw InvalidArgument(text("[clip_grad_norm_] expected max_norm >= 0, got ", max_norm));
  if (!(p > 0)) throw InvalidArgument(text("[clip_grad_norm_] expected norm_type > 0, got ", p));
  const NoGrad guard;
  std::size_t count = 0;
  std::vector<Lane> lanes = lanes_of(parameters, count);
  if (lanes.empty()) {
    if (parameters.empty()) return zeros({});
    return zeros({}, {.dtype = parameters[0].dtype(), .device = parameters[0].device()});
  }

  DType dtype = lanes[0].gradients.front().dtype();
  for (const Tensor& gradient : lanes[0].gradients) dtype = promote(dtype, gradient.dtype());
  for (Lane& lane : lanes) lane.reduce(count, p);
  std::vector<Tensor> results;
  for (Lane& lane : lanes) results.push_back(finish(lane, lanes[0], max_norm, p));
  const Tensor norm = results[0].select(0, 0);
  if (options.error_if_nonfinite)
    if (const auto value = norm.item<double>(); !std::isfinite(value))
      throw AutogradError(text("[clip_grad_norm_] expected a finite norm of the gradients, got ", value));
  for (std::size_t k = 0; k < lanes.size(); ++k) scale(lanes[k], results[k]);
  return norm.to(dtype);
}

void clip_grad_value_(std::span<const Tensor> parameters, double clip_value) {
  if (!(clip_value >= 0)) throw InvalidArgument(text("[clip_grad_value_] expected clip_value >= 0, got ", clip_value));
  const NoGrad guard;
  const std::vector<Tensor> gradients = gradients_everywhere("clip_grad_value_", parameters);
  for (const TensorGroup& group : by_device_and_dtype(gradients)) change("clip_grad_value", Clamp{clip_value}, group);
}

}  // namespace lockstep::optim
