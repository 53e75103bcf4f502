// cross_entropy and nll_loss: one kernel over the rows of classes, one over the losses of the rows, and one for the
// gradient.
#include <limits>

#include <lockstep/core/elementary.h>

#include <lockstep/ops/layout.h>
#include <lockstep/ops/softmax.h>
#include <lockstep/tensor/creation.h>

#include "kernels/rows/rows.h"
#include "ops/autocast.h"
#include "ops/dtypes.h"
#include "ops/index_check.h"
#include "ops/loss.h"
#include "ops/loss_total.h"
#include "tensor/copy.h"

namespace lockstep {
namespace {

// The numbers that the forward keeps for each row, by their index along the dimension of the classes.
enum RowStat {
  kLoss,
  kWeightOfRow,    // the row's weight in the mean
  kLogSum,         // the logarithm of the sum of exponentials
  kSoftmaxFactor,  // the factor of softmax in the gradient
  kRowStats
};

struct Form {
  bool softmax;  // false: the input holds log-probabilities
  bool weighted;
  std::int64_t ignore_index;
  double smoothing;

  // The factors of -log(softmax) in a row's loss: label smoothing gives spread() to each class c, and the row's target
  // class t has own() in addition.
  template <class C, class T>
  LOCKSTEP_HD C spread(const RowOf<const T>& weight, std::int64_t c) const {
    return C(smoothing) / C(weight.length) * (weighted ? C(weight[c]) : C(1));
  }
  template <class C, class T>
  LOCKSTEP_HD C own(const RowOf<const T>& weight, std::int64_t t) const {
    return C(1 - smoothing) * (weighted ? C(weight[t]) : C(1));
  }
  LOCKSTEP_HD bool counts(std::int64_t t, std::int64_t classes) const {
    return t != ignore_index && t >= 0 && t < classes;
  }
};

template <class T>
struct Losses {
  using C = ComputeType<T>;
  using Wide = Losses<C>;
  Form form;

  template <class Team>
  LOCKSTEP_HD void operator()(const Team& team, RowOf<C> stats, RowOf<const T> x, RowOf<const std::int64_t> target,
                              RowOf<const T> weight) const {
    const std::int64_t t = target[0];
    const bool counts = form.counts(t, x.length);
    const std::int64_t classes = counts ? x.length : 0;  // a row that does not count sums over no classes
    const C log_sum = form.softmax ? log_sum_of(team, x, classes) : C(0);
    TwoSums<C> smoothed = {};
    if (form.smoothing > 0)
      smoothed = sum_over(team, classes, [&](std::int64_t c) {
        const C part = form.spread<C>(weight, c);
        return TwoSums<C>{part * (log_sum - C(x[c])), part};
      });
    if (!team.first()) return;
    for (int i = 0; i < kRowStats; ++i) stats[i] = 0;
    if (!counts) return;
    const C own = form.own<C>(weight, t);
    stats[kLoss] = own * (log_sum - C(x[t])) + smoothed.first;
    stats[kWeightOfRow] = form.weighted ? C(weight[t]) : C(1);
    stats[kLogSum] = log_sum;
    stats[kSoftmaxFactor] = own + smoothed.second;
  }

  // The greatest element so far, and the sum of exp(x - best).
  struct Exponentials {
    C best, sum;
  };
  LOCKSTEP_HD static Exponentials joined(const Exponentials& a, const Exponentials& b) {
    const bool second = b.best > a.best;  // selects values: references would force both into memory
    const C high = second ? b.best : a.best, low = second ? a.best : b.best;
    const C of_high = second ? b.sum : a.sum, of_low = second ? a.sum : b.sum;
    if (low == high) return {high, of_high + of_low};
    return {high, of_high + of_low * C(elementary::exp(low - high))};
  }

  // On a GPU, computes the maximum and the sum in one pass over the row; one thread makes two passes.
  template <class Team>
  LOCKSTEP_HD static C log_sum_of(const Team& team, const RowOf<const T>& x, std::int64_t classes) {
    if constexpr (!Team::kSerial) {
      const auto [best, sum] = team.reduce_read(
          classes, Exponentials{-std::numeric_limits<C>::infinity(), 0}, [&](std::int64_t c) { return C(x[c]); },
          [](const Exponentials& so_far, C next) {
            return joined(so_far, {next, 1});
          },
          [](const Exponentials& a, const Exponentials& b) { return joined(a, b); });
      return best - best == 0 ? best + elementary::log(sum) : std::numeric_limits<C>::quiet_NaN();
    }
    const C best = greatest(team, x, classes);
    return best +
           elementary::log(sum_over(team, classes, [&](std::int64_t c) { return C(elementary::exp(C(x[c]) - best)); }));
  }
};

template <class T>
struct InputGradient {
  static constexpr int kIndependentOperand = 0;
  using C = ComputeType<T>;
  using Wide = InputGradient<C>;
  Form form;

  template <class Team>
  LOCKSTEP_HD void operator()(const Team& team, RowOf<T> out, RowOf<const C> g, RowOf<const C> divisor,
                              RowOf<const C> stats, RowOf<const T> x, RowOf<const std::int64_t> target,
                              RowOf<const T> weight) const {
    const std::int64_t t = target[0];
    const bool counts = form.counts(t, x.length);
    const C scale = counts ? g[0] / divisor[0] : C(0);
    const C softmax_factor = scale * stats[kSoftmaxFactor], log_sum = stats[kLogSum];
    const C own = counts ? scale * form.own<C>(weight, t) : C(0);
    // Element c is common(c, x[c]), less `own` if c is the target. `out` may be x's memory, so x[c] is not read after
    // out[c] is written.
    const auto fill = [&](const auto& common) {
      if constexpr (Team::kSerial) {  // without a condition in the loop, which would take a tenth of the time
        const C of_target = counts ? C(x[t]) : C(0);
        team.fill(out, [&](std::int64_t c) { return T(common(c, C(x[c]))); });
        if (counts) out[t] = T(common(t, of_target) - own);
      } else {
        team.fill(out, [&](std::int64_t c) { return T(common(c, C(x[c])) - (c == t ? own : C(0))); });
      }
    };
    const auto of_softmax = [&](C element) { return softmax_factor * elementary::exp(element - log_sum); };
    // The common case has a loop of its own, without a branch between its loads.
    if (counts && form.softmax && !(form.smoothing > 0))
      fill([&](std::int64_t, C element) { return of_softmax(element); });
    else
      fill([&](std::int64_t c, C element) {
        C value = 0;
        if (counts && form.softmax) value = of_softmax(element);
        if (counts && form.smoothing > 0) value -= scale * form.spread<C>(weight, c);
        return value;
      });
  }
};

struct Problem {
  const char* op;
  const char* node;
  Form form;
  Tensor weight;
  Reduction reduction;
  bool float32_loss = false;  // of a 16-bit input too: in autocast regions
};

// The kernels' operands. All have x's rank; along the dimension of the classes each has a size of its own.
struct Operands {
  int dim;
  Tensor x, target, weight, stats, divisor;
};

// The statistics' dimension is innermost in memory: one statistic of all rows is one strided row of the next kernel.
Tensor make_row_stats(const Tensor& x, int dim, DType dtype) {
  Shape sizes = x.sizes();
  sizes.erase(dim);
  sizes.push_back(kRowStats);
  return movedim(make_tensor(*x.impl()->storage->device, sizes, dtype), -1, dim);
}

Tensor expanded_along(const Tensor& row, const Tensor& x, int dim, std::int64_t size) {
  Shape sizes = x.sizes();
  sizes[dim] = size;
  Shape ones = Shape::filled(x.dim(), 1);
  ones[dim] = row.numel();
  return row.reshape(ones).expand(sizes);
}

Tensor input_gradient(const Problem& problem, const Operands& on, const Tensor& g, const Tensor& place = {});

// The gradient as differentiable operations: recomputes softmax, and reuses the factors that do not depend on x.
// Drops ignored rows first: they may hold NaN, and if all rows are ignored the divisor is 0.
Tensor recorded_gradient(const Problem& problem, const Operands& on, const Tensor& g) {
  Tensor unit;
  {
    const NoGrad guard;
    const Tensor one = ones({}, on.x.options());
    unit = input_gradient(problem, on, one);
  }
  // A float32 loss of a 16-bit input: computed in float32, and rounded once.
  if (g.dtype() != on.x.dtype()) {
    Operands wide = on;
    wide.x = widened(on.x);
    wide.weight = on.weight.to(wide.x.dtype());
    return recorded_gradient(problem, wide, g).to(on.x.dtype());
  }
  const Tensor row_g = g.dim() ? g.unsqueeze(on.dim) : g;
  const Tensor counts = ne(on.target, double(problem.form.ignore_index));
  if (!problem.form.softmax) return where(counts, row_g * unit, 0);
  const Tensor p = softmax(where(counts, on.x, 0), on.dim);
  const Tensor softmax_factor =
      where(counts, on.stats.narrow(on.dim, kSoftmaxFactor, 1) / on.divisor, 0).to(on.x.dtype());
  return where(counts, row_g * (unit + softmax_factor * (p - p.detach())), 0);
}

// `place`: if defined, on.x's memory, which gets the gradient.
Tensor input_gradient(const Problem& problem, const Operands& on, const Tensor& g, const Tensor& place) {
  if (records(g, on.x)) return recorded_gradient(problem, on, g);
  const Tensor out = place.defined() ? place : make_tensor(*on.x.impl()->storage->device, on.x.sizes(), on.x.dtype());
  const Tensor wide_g = widened(g);
  const Tensor row_g = g.dim() ? wide_g.unsqueeze(on.dim) : expanded_along(wide_g, on.x, on.dim, 1);
  const Tensor divisor = expanded_along(on.divisor, on.x, on.dim, 1);
  visit_floating(problem.op, on.x.dtype(), [&]<class T>() {
    using C = ComputeType<T>;
    map_rows<T, C, C, C, T, std::int64_t, T>(problem.op, 8, InputGradient<T>{problem.form}, on.dim, out, row_g, divisor,
                                             on.stats, on.x, on.target, on.weight);
  });
  if (place.defined()) bump_version(place);
  return out;
}

Tensor class_loss(const Problem& problem, const Tensor& input, const Tensor& classes) {
  const char* const op = problem.op;
  Operands on{
      input.dim() == 1 ? 0 : 1, input, as_index(op, classes).unsqueeze(input.dim() == 1 ? 0 : 1), input, {}, {}};
  const std::int64_t count = input.sizes()[on.dim];
  check_index(op, on.target, count, problem.form.ignore_index);
  const Tensor weight =
      problem.weight.defined() ? expanded_along(problem.weight, input, on.dim, count).detach() : Tensor();
  if (weight.defined()) on.weight = weight;
  DeviceState& device = *input.impl()->storage->device;
  const DType wide = wide_dtype(input.dtype());
  on.stats = make_row_stats(input, on.dim, wide);
  on.divisor = make_tensor(device, {2}, wide);
  const Tensor losses = on.stats.select(on.dim, kLoss).reshape({-1});
  const Tensor weights = on.stats.select(on.dim, kWeightOfRow).reshape({-1});
  visit_floating(op, input.dtype(), [&]<class T>() {
    using C = ComputeType<T>;
    map_rows<C, T, std::int64_t, T>(op, 5, Losses<T>{problem.form}, on.dim, on.stats, input.detach(), on.target,
                                    on.weight);
    const auto data = [](const Tensor& tensor) { return reinterpret_cast<C*>(tensor.impl()->data()); };
    const LossTotal<C> total{data(losses),        data(weights),    losses.numel(),
                             losses.strides()[0], data(on.divisor), problem.reduction == Reduction::mean};
    launch(op, double(losses.numel()), on.divisor, std::array{&losses, &weights}, total);
  });
  const bool single = problem.reduction != Reduction::none;
  Tensor out = copied(single ? on.divisor.select(0, 0) : on.stats.select(on.dim, kLoss), device,
                      problem.float32_loss ? wide : input.dtype());
  on.divisor = on.divisor.select(0, 1);
  if (records(input)) {
    Problem unweighted = problem;  // the weight is saved
    unweighted.weight = {};
    record(problem.node, out, {&input},
           [unweighted, dim = on.dim, x = Saved(input), target = Saved(on.target), saved_weight = Saved(weight),
            stats = Saved(on.stats), divisor = Saved(on.divisor)](const Tensor& g) {
             const Tensor place = x.overwritable(), logits = x.get(), w = saved_weight.get();
             const Operands now = {dim, logits, target.get(), w.defined() ? w : logits, stats.get(), divisor.get()};
             return Gradients{input_gradient(unweighted, now, g, place)};
           });
  }
  return out;
}

// The shape of a target that holds one class per row: the input's without the dimension of the classes.
Shape rows_of(const Tensor& input) {
  Shape rows = input.sizes();
  rows.erase(input.dim() == 1 ? 0 : 1);
  return rows;
}

Tensor checked_class_loss(const Problem& problem, const Tensor& input, const Tensor& target) {
  const char* const op = problem.op;
  const Shape rows = rows_of(input);
  if (target.sizes() != rows)
    throw ShapeError(text("[", op, "] expected a target of shape ", rows, " for an input of shape ", input.sizes(),
                          ", got ", target.sizes()));
  if (problem.reduction != Reduction::batchmean) return class_loss(problem, input, target);
  Problem summed = problem;
  summed.reduction = Reduction::sum;
  return class_loss(summed, input, target) / double(rows.empty() ? 1 : rows[0]);
}

void check_input(const char* op, const Tensor& input, const Tensor& target, const Tensor& weight) {
  check_same_device(op, input, target);
  check_floating(op, input);
  if (input.dim() == 0 || input.sizes()[input.dim() == 1 ? 0 : 1] == 0)
    throw ShapeError(text("[", op, "] expected an input of [rows, classes, ...] or [classes], got ", input.sizes()));
  if (!weight.defined()) return;
  check_same_device(op, input, weight);
  const std::int64_t classes = input.sizes()[input.dim() == 1 ? 0 : 1];
  if (weight.sizes() != Shape{classes})
    throw ShapeError(text("[", op, "] expected a weight of shape ", Shape{classes}, ", got ", weight.sizes()));
  if (weight.dtype() != input.dtype())
    throw DTypeError(text("[", op, "] expected a weight of ", input.dtype(), ", got ", weight.dtype()));
}

Tensor probability_loss(const Tensor& input, const Tensor& target, const CrossEntropyOptions& options) {
  if (target.sizes() != input.sizes() && target.sizes() == rows_of(input))
    throw DTypeError(text("[cross_entropy] expected a target of integers (classes), got ", target.dtype()));
  check_target("cross_entropy", input, target);
  const int dim = input.dim() == 1 ? 0 : 1;
  const std::int64_t classes = input.sizes()[dim];
  const double spread = options.label_smoothing / double(classes);
  Tensor terms = log_softmax(input, dim) * (spread > 0 ? target * (1 - options.label_smoothing) + spread : target);
  if (options.weight.defined()) terms = terms * expanded_along(options.weight, input, dim, classes);
  return reduced(-sum(terms, {dim}), options.reduction);
}

}  // namespace

namespace {

// float32_loss: the loss is float32 also if the input is 16-bit.
Tensor cross_entropy_of(const Tensor& input, const Tensor& target, const CrossEntropyOptions& options,
                        bool float32_loss) {
  check_input("cross_entropy", input, target, options.weight);
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1))
    throw InvalidArgument(text("[cross_entropy] expected label_smoothing in [0, 1], got ", options.label_smoothing));
  if (is_floating(target.dtype())) return probability_loss(input, target, options);
  return checked_class_loss({"cross_entropy",
                             "CrossEntropy",
                             {true, options.weight.defined(), options.ignore_index, options.label_smoothing},
                             options.weight,
                             options.reduction,
                             float32_loss},
                            input, target);
}

}  // namespace

Tensor cross_entropy(const Tensor& input, const Tensor& target, const CrossEntropyOptions& options) {
  if (const auto cast = autocast::wide()) {
    // The kernels read 16-bit logits, and write their gradient in 16 bits, without copies in float32.
    const bool has_classes = target.defined() && !is_floating(target.dtype());
    if (has_classes && !options.weight.defined()) return cross_entropy_of(input, target, options, true);
    CrossEntropyOptions wide = options;
    if (wide.weight.defined()) wide.weight = cast(wide.weight);
    return cross_entropy_of(cast(input), cast(target), wide, false);
  }
  return cross_entropy_of(input, target, options, false);
}

Tensor nll_loss(const Tensor& input, const Tensor& target, const NllLossOptions& options) {
  if (const auto cast = autocast::wide()) {
    NllLossOptions wide = options;
    if (wide.weight.defined()) wide.weight = cast(wide.weight);
    return nll_loss(cast(input), cast(target), wide);
  }
  check_input("nll_loss", input, target, options.weight);
  return checked_class_loss({"nll_loss",
                             "NllLoss",
                             {false, options.weight.defined(), options.ignore_index, 0},
                             options.weight,
                             options.reduction},
                            input, target);
}

}  // namespace lockstep
