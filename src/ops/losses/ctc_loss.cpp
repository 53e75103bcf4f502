// ctc_loss: one kernel walks forwards over time, one backwards for the gradient, and one sums the gradient. They
// compute in float32 or wider.
#include <algorithm>
#include <cmath>
#include <limits>

#include <lockstep/ops/index.h>
#include <lockstep/ops/join.h>
#include <lockstep/ops/likelihood_loss.h>
#include <lockstep/ops/order.h>
#include <lockstep/tensor/creation.h>

#include "kernels/rows/rows.h"
#include "ops/autocast.h"
#include "ops/index_check.h"
#include "ops/loss.h"

namespace lockstep {
namespace {

// The states of a target: a blank, its first class, a blank, its second class, ..., a blank.
struct CtcStates {
  std::int64_t blank;
  LOCKSTEP_HD std::int64_t class_of(const RowOf<const std::int64_t>& target, std::int64_t first, std::int64_t s) const {
    return s % 2 ? target[first + s / 2] : blank;
  }
};

enum CtcLength { kInputLength, kTargetLength, kTargetStart, kCtcLengths };

// Computes, for each time and state, the log-probability of all paths to that state (backwards: from that state to the
// end), the state included. A row holds the times in order, with `states` elements each, and the loss at the end.
template <class T>
struct CtcWalk {
  CtcStates of;
  std::int64_t states, class_step;
  bool backwards;

  LOCKSTEP_HD void operator()(RowOf<T> ways, RowOf<const T> log_probs, RowOf<const std::int64_t> target,
                              RowOf<const std::int64_t> lengths) const {
    constexpr T kNone = -std::numeric_limits<T>::infinity();
    const std::int64_t times = lengths[kInputLength], count = 2 * lengths[kTargetLength] + 1;
    const std::int64_t first = lengths[kTargetStart];
    const auto state = [&](std::int64_t s) { return backwards ? count - 1 - s : s; };
    const auto at = [&](std::int64_t t, std::int64_t s) -> T& {
      return ways[(backwards ? times - 1 - t : t) * states + state(s)];
    };
    const auto own = [&](std::int64_t t, std::int64_t s) {
      const T* const row = &log_probs[backwards ? times - 1 - t : t];
      return row[of.class_of(target, first, state(s)) * class_step];
    };
    for (std::int64_t t = 0; t < times; ++t)
      for (std::int64_t s = 0; s < count; ++s) {
        if (t == 0) {
          at(0, s) = s < 2 ? own(0, s) : kNone;
          continue;
        }
        const bool skips =
            s > 1 && s % 2 == 1 && of.class_of(target, first, state(s)) != of.class_of(target, first, state(s - 2));
        const T stay = at(t - 1, s), step = s > 0 ? at(t - 1, s - 1) : kNone, skip = skips ? at(t - 1, s - 2) : kNone;
        at(t, s) = sum_of(stay, step, skip) + own(t, s);
      }
    const T last = times > 0 ? at(times - 1, count - 1) : count == 1 ? T(0) : kNone;
    const T before = times > 0 && count > 1 ? at(times - 1, count - 2) : kNone;
    ways[ways.length - 1] = -sum_of(last, before, kNone);
  }

  LOCKSTEP_HD static T sum_of(T a, T b, T c) {
    const T most = a > b ? (a > c ? a : c) : (b > c ? b : c);
    if (most == -std::numeric_limits<T>::infinity()) return most;
    return most + elementary::log(elementary::exp(a - most) + elementary::exp(b - most) + elementary::exp(c - most));
  }
};

// Computes, for one time of one sample, the gradient: -g times the expected count of each class.
template <class T>
struct CtcGradient {
  CtcStates of;
  bool zero_infinity;

  LOCKSTEP_HD void operator()(RowOf<T> out, RowOf<const T> g, RowOf<const T> loss, RowOf<const bool> counts,
                              RowOf<const T> forwards, RowOf<const T> backwards, RowOf<const T> log_probs,
                              RowOf<const std::int64_t> target, RowOf<const std::int64_t> lengths) const {
    const bool infinite = loss[0] == std::numeric_limits<T>::infinity();
    const T start = infinite && !zero_infinity && counts[0] ? std::numeric_limits<T>::quiet_NaN() : T(0);
    for (std::int64_t c = 0; c < out.length; ++c) out[c] = start;
    if (!counts[0] || infinite) return;
    const std::int64_t count = 2 * lengths[kTargetLength] + 1;
    for (std::int64_t s = 0; s < count; ++s) {
      const std::int64_t c = of.class_of(target, lengths[kTargetStart], s);
      const T ways = forwards[s] + backwards[s];  // both include the log-probability of c, which is subtracted once
      if (ways > -std::numeric_limits<T>::infinity()) out[c] -= g[0] * elementary::exp(ways - log_probs[c] + loss[0]);
    }
  }
};

// The checked arguments, in the shapes of the kernels.
struct CtcProblem {
  CtcLossOptions options;
  std::int64_t times, batch, classes, states;
  Tensor targets;  // [batch, some]
  Tensor lengths;  // [batch, kCtcLengths]
};

// The result of CtcWalk: [batch, times * states + 1].
Tensor ctc_ways(const CtcProblem& on, const Tensor& log_probs, bool backwards) {
  Tensor out = make_tensor(*log_probs.impl()->storage->device, {on.batch, on.times * on.states + 1}, log_probs.dtype());
  const auto rows = [](const Tensor& x) { return x.t().unsqueeze(2); };
  visit_floating("ctc_loss", log_probs.dtype(), [&]<class T>() {
    if constexpr (sizeof(T) >= 4) {
      const CtcWalk<T> walk{{on.options.blank}, on.states, log_probs.strides()[2], backwards};
      map_rows<T, T, std::int64_t, std::int64_t>("ctc_loss", 10, walk, 0, rows(out), log_probs.detach(),
                                                 rows(on.targets), rows(on.lengths));
    }
  });
  return out;
}

// The paths of ctc_ways() as [time, batch, states].
Tensor ctc_by_time(const CtcProblem& on, const Tensor& ways) {
  return ways.narrow(1, 0, on.times * on.states).view({on.batch, on.times, on.states}).transpose(0, 1);
}

// [time, batch]: true within the input's length.
Tensor ctc_counts(const CtcProblem& on) {
  const Tensor time = arange(0, double(on.times), 1, {.dtype = kInt64, .device = on.lengths.device()});
  return lt(time.unsqueeze(1), on.lengths.select(1, kInputLength).unsqueeze(0));
}

Tensor ctc_gradient(const CtcProblem& on, const Tensor& g, const Tensor& log_probs, const Tensor& forwards) {
  Tensor out = make_tensor(*log_probs.impl()->storage->device, log_probs.sizes(), log_probs.dtype());
  const Tensor backwards = ctc_ways(on, log_probs, true);
  const auto each_time = [&](const Tensor& x) { return x.expand({on.times, on.batch, x.size(-1)}); };
  visit_floating("ctc_loss", log_probs.dtype(), [&]<class T>() {
    if constexpr (sizeof(T) >= 4)
      map_rows<T, T, T, bool, T, T, T, std::int64_t, std::int64_t>(
          "ctc_loss_gradient", 10, CtcGradient<T>{{on.options.blank}, on.options.zero_infinity}, 2, out,
          each_time(g.unsqueeze(1)), each_time(forwards.narrow(1, on.times * on.states, 1)),
          ctc_counts(on).unsqueeze(2), ctc_by_time(on, forwards), ctc_by_time(on, backwards), log_probs,
          each_time(on.targets), each_time(on.lengths));
  });
  return out;
}

// The log-probability of an impossible path when CtcWalk is composed of differentiable operations. (The gradient of an
// infinity would be NaN.)
constexpr double kFar = -1e30;

Tensor ctc_gradient_by_ops(const CtcProblem& on, const Tensor& g, const Tensor& log_probs) {
  const TensorOptions index = {.dtype = kInt64, .device = log_probs.device()};
  const Tensor target_length = on.lengths.select(1, kTargetLength).unsqueeze(1);
  const std::int64_t longest = on.states / 2;  // at least 1
  const Tensor place = arange(0, double(longest), 1, index);
  const Tensor within = lt(place.unsqueeze(0), target_length);
  const Tensor from = where(within, on.lengths.select(1, kTargetStart).unsqueeze(1) + place, zeros({}, index));
  const Tensor blanks = full({on.batch, longest}, double(on.options.blank), index);
  const Tensor chosen = where(within, gather_elements(on.targets, 1, from), blanks);
  const Tensor states = cat({stack({blanks, chosen}, 2).reshape({on.batch, 2 * longest}),
                             full({on.batch, 1}, double(on.options.blank), index)},
                            1);
  const Tensor state = arange(0, double(on.states), 1, index).unsqueeze(0), last = target_length * 2;
  const Tensor exists = le(state, last);
  const Tensor own = gather_elements(log_probs, 2, states.unsqueeze(0).expand({on.times, on.batch, on.states}));
  const Tensor fresh = cat({full({on.batch, 2}, 0, {.dtype = kBool, .device = log_probs.device()}),
                            ne(states.narrow(1, 2, on.states - 2), states.narrow(1, 0, on.states - 2))},
                           1);  // states that can also be reached from two states earlier
  const auto far = [&](std::int64_t columns) { return full({on.batch, columns}, kFar, log_probs.options()); };
  const auto step = [&](const Tensor& ways, bool on_backwards) {
    const std::int64_t n = on.states;
    if (on_backwards) {
      const Tensor skips = where(fresh, ways, kFar);
      return logsumexp(
          stack({ways, cat({ways.narrow(1, 1, n - 1), far(1)}, 1), cat({skips.narrow(1, 2, n - 2), far(2)}, 1)}, 0),
          {0});
    }
    const Tensor skips = where(fresh, cat({far(2), ways.narrow(1, 0, n - 2)}, 1), kFar);
    return logsumexp(stack({ways, cat({far(1), ways.narrow(1, 0, n - 1)}, 1), skips}, 0), {0});
  };
  const Tensor input_length = on.lengths.select(1, kInputLength).unsqueeze(1);
  std::vector<Tensor> forwards, backwards(std::size_t(on.times));
  Tensor ways = where(exists & lt(state, 2.0), own[0], kFar);
  for (std::int64_t t = 0; t < on.times; ++t) {
    if (t > 0) ways = where(exists, step(ways, false) + own[t], kFar);
    forwards.push_back(ways);
  }
  ways = far(on.states);
  for (std::int64_t t = on.times; t-- > 0;) {
    const Tensor ends = eq(input_length, double(t + 1)) & exists & ge(state, last - 1);
    const Tensor goes_on = lt(full({}, double(t + 1), index), input_length) & exists;
    ways = where(ends, own[t], where(goes_on, step(ways, true) + own[t], kFar));
    backwards[std::size_t(t)] = ways;
  }
  const Tensor through = stack(forwards) + stack(backwards) - own;
  const Tensor total = logsumexp(through[0], {1}, true);
  const Tensor possible = gt(total, kFar / 2).unsqueeze(0) & (exists.unsqueeze(0) & ctc_counts(on).unsqueeze(2));
  const Tensor uses = where(possible, exp(where(possible, through - total, 0)) * g.view({1, on.batch, 1}), 0);
  return scatter_add(zeros(log_probs.sizes(), log_probs.options()), 2,
                     states.unsqueeze(0).expand({on.times, on.batch, on.states}), -uses);
}

CtcProblem ctc_problem(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                       const Tensor& target_lengths, const CtcLossOptions& options) {
  constexpr const char* kOp = "ctc_loss";
  CtcProblem on{options, log_probs.size(0), log_probs.size(1), log_probs.size(2), 0, as_index(kOp, targets), {}};
  const Tensor inputs = as_index(kOp, input_lengths), lengths = as_index(kOp, target_lengths);
  if (inputs.sizes() != Shape{on.batch} || lengths.sizes() != Shape{on.batch})
    throw ShapeError(text("[ctc_loss] expected lengths of shape ", Shape{on.batch}, ", got ", input_lengths.sizes(),
                          " and ", target_lengths.sizes()));
  if (on.targets.dim() != 1 && (on.targets.dim() != 2 || on.targets.size(0) != on.batch))
    throw ShapeError(
        text("[ctc_loss] expected targets [", on.batch, ", longest] or in one dimension, got ", targets.sizes()));
  if (options.blank < 0 || options.blank >= on.classes)
    throw InvalidArgument(text("[ctc_loss] expected a blank in [0, ", on.classes, "), got ", options.blank));
  const std::int64_t room = on.targets.size(-1);
  check_index(kOp, inputs, on.times + 1);
  check_index(kOp, lengths, room + 1);
  const bool padded = on.targets.dim() == 2;
  const Tensor starts =
      padded ? zeros({on.batch}, {.dtype = kInt64, .device = log_probs.device()}) : cumsum(lengths, 0) - lengths;
  if (!padded) check_index(kOp, starts + lengths, room + 1);
  const Tensor place = arange(0, double(room), 1, {.dtype = kInt64, .device = log_probs.device()});
  const TensorOptions index = {.dtype = kInt64, .device = log_probs.device()};
  const Tensor none = full({}, double(options.blank), index);
  on.targets = padded ? where(lt(place.unsqueeze(0), lengths.unsqueeze(1)), on.targets, none)
                      : where(lt(place, sum(lengths)), on.targets, none).unsqueeze(0).expand({on.batch, room});
  check_index(kOp, on.targets, on.classes);
  if (room == 0) on.targets = none.expand({on.batch, 1});
  on.states = 2 * std::max<std::int64_t>(room, 1) + 1;
  on.lengths = stack({inputs, lengths, starts}, 1);
  return on;
}

}  // namespace

Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CtcLossOptions& options) {
  if (const auto cast = autocast::wide())
    return ctc_loss(cast(log_probs), cast(targets), cast(input_lengths), cast(target_lengths), options);
  check_floating("ctc_loss", log_probs);
  for (const Tensor* other : {&targets, &input_lengths, &target_lengths})
    check_same_device("ctc_loss", log_probs, *other);
  if (log_probs.dim() == 2)
    return ctc_loss(log_probs.unsqueeze(1), targets.reshape({1, -1}), input_lengths.reshape({1}),
                    target_lengths.reshape({1}), options)
        .reshape({});
  if (log_probs.dim() != 3)
    throw ShapeError(
        text("[ctc_loss] expected log_probs [time, batch, classes] or [time, classes], got ", log_probs.sizes()));
  const Tensor x = widened(log_probs);
  const CtcProblem on = ctc_problem(x, targets, input_lengths, target_lengths, options);
  const Tensor ways = ctc_ways(on, x, false);
  Tensor losses = ways.select(1, on.times * on.states).clone();
  if (options.zero_infinity) losses = where(isinf(losses), 0, losses);
  if (records(x)) {
    CtcProblem sizes = on;  // the tensors are saved
    sizes.targets = sizes.lengths = {};
    record(
        "CtcLoss", losses, {&x},
        [sizes, x = Saved(x), ways = Saved(ways), targets = Saved(on.targets),
         lengths = Saved(on.lengths)](const Tensor& g) {
          CtcProblem again = sizes;
          again.targets = targets.get();
          again.lengths = lengths.get();
          const Tensor v = x.get();
          return Gradients{grad_enabled() ? ctc_gradient_by_ops(again, g, v) : ctc_gradient(again, g, v, ways.get())};
        });
  }
  if (options.reduction == Reduction::mean) {
    const Tensor lengths = on.lengths.select(1, kTargetLength).to(x.dtype());
    losses = losses / clamp(lengths, {.min = 1});
  }
  return reduced(losses, options.reduction).to(log_probs.dtype());
}

}  // namespace lockstep
