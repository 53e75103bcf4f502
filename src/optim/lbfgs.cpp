#include <lockstep/optim/lbfgs.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/join.h>
#include <lockstep/ops/linalg.h>
#include <lockstep/tensor/creation.h>

#include "core/text.h"
#include "optim/optimizer_impl.h"

namespace lockstep::optim {
namespace {

double dot_of(const Tensor& a, const Tensor& b) { return dot(a, b).item<double>(); }
double greatest(const Tensor& x) { return x.abs().max().item<double>(); }

}  // namespace

void LBFGSOptions::check() const {
  require_not_negative(kName, {{"lr", lr},
                               {"tolerance_grad", tolerance_grad},
                               {"tolerance_change", tolerance_change},
                               {"max_eval", double(max_eval)}});
  require(max_iter > 0, kName, "max_iter > 0", double(max_iter));
  require(history_size > 0, kName, "history_size > 0", double(history_size));
}

std::vector<Slot> LBFGS::slots(std::size_t) const { return {}; }
void LBFGS::update(std::size_t, const Batch&) const {}

void LBFGS::step() {
  throw InvalidArgument(
      "[LBFGS] expected step(closure), with a function that calls zero_grad(), computes the loss, calls backward() and "
      "returns the loss; got step() without a function");
}

void LBFGS::check_parameters() const {
  options().check();
  if (group_count() != 1)
    throw InvalidArgument(text("[LBFGS] expected all parameters in one group, got ", group_count(), " groups"));
  const Tensor& first = parameters()[0];
  for (std::size_t i = 0; i < parameters().size(); ++i) {
    const Tensor& parameter = parameters()[i];
    const auto refuse = [&](const auto&... what) {
      throw InvalidArgument(text("[LBFGS] expected parameter ", i, ' ', what...));
    };
    if (size_of(parameter.dtype()) == 2) refuse("of float32 or float64, got ", parameter.dtype());
    if (parameter.dtype() != first.dtype() || parameter.device() != first.device())
      refuse("of the dtype and on the device of the first, ", first.dtype(), " on ", first.device(), ", got ",
             parameter.dtype(), " on ", parameter.device());
    if (replica_count(parameter) > 1 || is_sharded(parameter) || shard_layout_of(parameter))
      refuse(
          "on one device, got a parameter of a model on several devices: train the model on one device, or use another "
          "optimizer");
  }
  if (!call_logs(parameters()).empty())
    throw InvalidArgument(
        "[LBFGS] expected a model in one process, got a model of several processes, whose losses differ: use another "
        "optimizer");
}

std::int64_t LBFGS::elements() const {
  std::int64_t all = 0;
  for (const Tensor& parameter : parameters()) all += parameter.numel();
  return all;
}

double LBFGS::evaluate(const Closure& closure, Tensor* loss) {
  const GradMode guard(true);
  const Tensor computed = closure();
  ++state_.func_evals;
  if (!computed.defined() || computed.numel() != 1)
    throw InvalidArgument(text("[LBFGS] expected the closure to return the loss, a tensor of one element, got ",
                               computed.defined() ? text("shape ", computed.sizes()) : "an undefined tensor"));
  if (loss) *loss = computed;
  return (options().maximize ? -1 : 1) * computed.item<double>();
}

Tensor LBFGS::flat_gradient() const {
  std::vector<Tensor> flat;
  for (const Tensor& parameter : parameters()) {
    const Tensor* const gradient = gradient_of(parameter);
    flat.push_back(gradient ? gradient->detach().reshape({-1}) : zeros_like(parameter.detach()).reshape({-1}));
  }
  Tensor all = cat(flat);
  return options().maximize ? all.neg() : all;
}

void LBFGS::move(double by, const Tensor& direction) {
  std::int64_t at = 0;
  for (const Tensor& parameter : parameters()) {
    Tensor values = parameter.detach();
    values.add_(direction.narrow(0, at, values.numel()).view(values.sizes()), by);
    at += values.numel();
  }
}

Tensor LBFGS::direction(const Tensor& gradient) {
  State& s = state_;
  if (s.n_iter == 1) {
    s.old_dirs.clear(), s.old_stps.clear(), s.ro.clear();
    s.H_diag = 1;
    return gradient.neg();
  }
  const Tensor y = gradient - s.prev_flat_grad, step = s.d * s.t;
  if (const double ys = dot_of(y, step); ys > 1e-10) {
    if (std::int64_t(s.old_dirs.size()) >= options().history_size) {
      s.old_dirs.erase(s.old_dirs.begin());
      s.old_stps.erase(s.old_stps.begin());
      s.ro.erase(s.ro.begin());
    }
    s.old_dirs.push_back(y);
    s.old_stps.push_back(step);
    s.ro.push_back(1 / ys);
    s.H_diag = ys / dot_of(y, y);
  }
  const std::size_t count = s.old_dirs.size();
  std::vector<double> al(count);
  Tensor q = gradient.neg();
  for (std::size_t i = count; i-- > 0;) {
    al[i] = dot_of(s.old_stps[i], q) * s.ro[i];
    q.add_(s.old_dirs[i], -al[i]);
  }
  q.mul_(s.H_diag);
  for (std::size_t i = 0; i < count; ++i) q.add_(s.old_stps[i], al[i] - dot_of(s.old_dirs[i], q) * s.ro[i]);
  return q;
}

// A line search along a direction, from the present values of the parameters, which it restores at its end.
class LBFGS::Search {
 public:
  Search(LBFGS& optimizer, const Closure& closure, const Tensor& direction)
      : optimizer_(&optimizer), closure_(&closure), direction_(direction) {
    for (const Tensor& parameter : optimizer.parameters()) start_.push_back(parameter.detach().clone());
  }

  /// A point that meets the strong Wolfe conditions, or the best point after the maximum number of iterations.
  Point run(const Point& start, double first, std::int64_t most) {
    constexpr double kDecrease = 1e-4, kCurvature = 0.9, kSmallest = 1e-9;
    const auto falls_short = [&](const Point& at) { return at.loss > start.loss + kDecrease * at.t * start.slope; };
    const auto is_flat = [&](const Point& at) { return std::abs(at.slope) <= -kCurvature * start.slope; };

    // Find a bracket: two points between which a point meets the conditions.
    Point before = start, now = at(first);
    Point bracket[2];
    std::int64_t iteration = 0;
    bool has_bracket = false;
    for (; iteration < most; ++iteration) {
      has_bracket = falls_short(now) || (iteration > 1 && now.loss >= before.loss) || now.slope >= 0 || is_flat(now);
      if (has_bracket) break;
      const double next = between(before, now, now.t + 0.01 * (now.t - before.t), now.t * 10);
      before = now;
      now = at(next);
    }
    if (has_bracket && !falls_short(now) && !(iteration > 1 && now.loss >= before.loss) && is_flat(now)) return now;
    bracket[0] = has_bracket ? before : start;
    bracket[1] = now;

    // Shrink the bracket.
    const double length = greatest(direction_);
    bool slow = false;
    int low = bracket[0].loss <= bracket[1].loss ? 0 : 1;
    for (; iteration < most; ++iteration) {
      const double least = std::min(bracket[0].t, bracket[1].t), last = std::max(bracket[0].t, bracket[1].t);
      if ((last - least) * length < kSmallest) break;
      double t = between(bracket[0], bracket[1], least, last);
      const double margin = 0.1 * (last - least);
      if (std::min(last - t, t - least) < margin) {  // the cubic gives a point too close to an end of the bracket
        if (slow || t >= last || t <= least) {
          t = std::abs(t - last) < std::abs(t - least) ? last - margin : least + margin;
          slow = false;
        } else {
          slow = true;
        }
      } else {
        slow = false;
      }
      const Point tried = at(t);
      if (falls_short(tried) || tried.loss >= bracket[low].loss) {
        bracket[1 - low] = tried;
        low = bracket[0].loss <= bracket[1].loss ? 0 : 1;
        continue;
      }
      const bool done = is_flat(tried);
      if (!done && tried.slope * (bracket[1 - low].t - bracket[low].t) >= 0) bracket[1 - low] = bracket[low];
      bracket[low] = tried;
      if (done) break;
    }
    return bracket[low];
  }

 private:
  Point at(double t) {
    optimizer_->move(t, direction_);
    Point point;
    point.t = t;
    point.loss = optimizer_->evaluate(*closure_);
    point.gradient = optimizer_->flat_gradient();
    point.slope = dot_of(point.gradient, direction_);
    for (std::size_t i = 0; i < start_.size(); ++i) optimizer_->parameters()[i].detach().copy_(start_[i]);
    return point;
  }

  // The step length at the minimum of the cubic through two points, clamped to [least, most].
  static double between(const Point& a, const Point& b, double least, double most) {
    const double d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t), square = d1 * d1 - a.slope * b.slope;
    if (!(square >= 0)) return (least + most) / 2;
    const double d2 = std::sqrt(square);
    const auto& [low, high] = a.t <= b.t ? std::tie(a, b) : std::tie(b, a);
    const double t = high.t - (high.t - low.t) * ((high.slope + d2 - d1) / (high.slope - low.slope + 2 * d2));
    return std::min(std::max(t, least), most);
  }

  LBFGS* const optimizer_;
  const Closure* const closure_;
  const Tensor direction_;
  std::vector<Tensor> start_;
};

Tensor LBFGS::step(const Closure& closure) {
  check_parameters();
  const NoGrad guard;
  const LBFGSOptions& o = options();
  State& s = state_;
  const std::int64_t before = s.func_evals, most = o.max_eval > 0 ? o.max_eval : o.max_iter * 5 / 4;

  Tensor first_loss;
  double loss = evaluate(closure, &first_loss);
  note_gradient();
  Tensor gradient = flat_gradient();
  if (greatest(gradient) <= o.tolerance_grad) return first_loss;

  for (std::int64_t iteration = 1; iteration <= o.max_iter; ++iteration) {
    ++s.n_iter;
    s.d = direction(gradient);
    s.prev_flat_grad = gradient;
    s.prev_loss = loss;
    s.t = s.n_iter == 1 ? std::min(1., 1 / gradient.abs().sum().item<double>()) * o.lr : o.lr;
    const double slope = dot_of(gradient, s.d);
    if (slope > -o.tolerance_change) break;
    if (o.line_search_fn == LineSearch::strong_wolfe) {
      const Point start = {.t = 0, .loss = loss, .gradient = gradient, .slope = slope};
      const Point found = Search(*this, closure, s.d).run(start, s.t, most - (s.func_evals - before));
      loss = found.loss;
      gradient = found.gradient;
      s.t = found.t;
      move(s.t, s.d);
    } else {
      move(s.t, s.d);
      if (iteration == o.max_iter) break;  // the next step() begins with a call of the closure
      loss = evaluate(closure);
      gradient = flat_gradient();
    }
    if (iteration == o.max_iter || s.func_evals - before >= most || greatest(gradient) <= o.tolerance_grad ||
        greatest(s.d) * std::abs(s.t) <= o.tolerance_change || std::abs(loss - s.prev_loss) < o.tolerance_change)
      break;
  }
  return first_loss;
}

}  // namespace lockstep::optim
