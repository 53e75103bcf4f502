// L-BFGS: computes the direction of a step with an approximate inverse Hessian, from the last gradients.
//
//   optim::LBFGS optimizer(model.parameters(), {.line_search_fn = "strong_wolfe"});
//   Tensor loss = optimizer.step([&] {
//     optimizer.zero_grad();
//     Tensor loss = nn::mse_loss(model(x), y);
//     loss.backward();
//     return loss;
//   });
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <lockstep/core/choice.h>
#include <lockstep/optim/optimizer.h>

namespace lockstep::optim {

/// The length of a step along its direction: lr, or a length that meets the strong Wolfe conditions.
enum class LineSearch : std::uint8_t { none, strong_wolfe };

}  // namespace lockstep::optim

template <>
struct lockstep::ChoiceNames<lockstep::optim::LineSearch> {
  static constexpr const char* kOption = "line_search_fn";
  static constexpr std::string_view kNames[] = {"none", "strong_wolfe"};
};

namespace lockstep::optim {

struct LBFGSOptions {
  double lr = 1;
  std::int64_t max_iter = 20;       ///< Maximum number of iterations in a step.
  std::int64_t max_eval = 0;        ///< Maximum number of calls of the closure in a step; 0: max_iter * 5 / 4.
  double tolerance_grad = 1e-7;     ///< A step ends if no element of the gradient is larger in magnitude.
  double tolerance_change = 1e-9;   ///< A step ends if the loss and all parameters change by less.
  std::int64_t history_size = 100;  ///< Number of last changes (of parameters and gradient) to keep.
  Choice<LineSearch> line_search_fn = LineSearch::none;  ///< Not in the state dict.
  bool maximize = false;

  static constexpr const char* kName = "LBFGS";
  LOCKSTEP_API void check() const;
  auto members() {
    return lockstep::members("lr", lr, "max_iter", max_iter, "max_eval", max_eval, "tolerance_grad", tolerance_grad,
                             "tolerance_change", tolerance_change, "history_size", history_size, "maximize", maximize);
  }
};

/// Nocedal, Wright 2006, algorithm 7.5; the line search is Schmidt's minFunc, as in PyTorch. The parameters are one
/// group of one dtype, float32 or float64, on one device; a model on several devices or in several processes is an
/// error. The host waits for every call of the closure, so a step cannot be captured. State, for all parameters
/// together, under "state.0": d, t, old_dirs, old_stps, ro, H_diag, prev_flat_grad, prev_loss, func_evals, n_iter.
class LOCKSTEP_API LBFGS final : public OptimizerWith<LBFGSOptions> {
 public:
  using OptimizerWith::OptimizerWith;

  /// Always throws InvalidArgument: LBFGS needs a closure that computes the loss again.
  void step() override;
  /// Runs up to max_iter iterations. Returns the loss of the closure's first call. Before anything changes, throws
  /// InvalidArgument for several groups, for options out of range and for parameters that are not as described above;
  /// AutogradError if the closure made no gradient. Exceptions of the closure are not caught; a line search then leaves
  /// the parameters at the point that it tried last.
  Tensor step(const Closure& closure) override;

 private:
  struct State {
    std::int64_t func_evals = 0, n_iter = 0;
    Tensor d, prev_flat_grad;  // flat: the elements of all parameters
    double t = 0, H_diag = 1, prev_loss = 0;
    std::vector<Tensor> old_dirs, old_stps;  // changes of gradients and parameters, the oldest first
    std::vector<double> ro;
  };
  /// A point that the line search tried: the parameters moved by t times the direction.
  struct Point {
    double t = 0, loss = 0;
    Tensor gradient;   // flat
    double slope = 0;  // of the loss, along the direction
  };
  class Search;

  std::vector<Slot> slots(std::size_t group) const override;
  void update(std::size_t group, const Batch& batch) const override;
  void add_own_state(StateDict& dict) const override;
  std::function<void()> read_own_state(StateReader& reader) override;
  void reset_own_state() override { state_ = {}; }

  void check_parameters() const;
  std::int64_t elements() const;
  /// Calls the closure. Returns the loss to minimize, which is negated if `maximize` is set.
  double evaluate(const Closure& closure, Tensor* loss = nullptr);
  Tensor flat_gradient() const;
  void move(double by, const Tensor& direction);
  /// Adds the change since the last gradient to the history. Returns the search direction.
  Tensor direction(const Tensor& gradient);

  State state_;
};

}  // namespace lockstep::optim
