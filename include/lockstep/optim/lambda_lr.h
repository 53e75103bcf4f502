// Learning rate schedules given by functions of the epoch.
//
//   optim::LambdaLR schedule(optimizer, [](int64_t epoch) { return std::pow(0.95, epoch); });
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <utility>
#include <vector>

#include <lockstep/optim/schedule.h>

namespace lockstep::optim {

/// A factor for each epoch: one function for all groups, or one per group. State dicts do not hold the functions.
class LOCKSTEP_API RateFunctions {
 public:
  using Function = std::function<double(std::int64_t epoch)>;  ///< The factor of an epoch.

  /// Takes one function for all groups, or one per group.
  template <class F>
  requires std::convertible_to<F, Function> RateFunctions(F function) : functions_{Function(std::move(function))} {}
  RateFunctions(std::vector<Function> functions) : functions_(std::move(functions)) {}
  RateFunctions(std::initializer_list<Function> functions) : functions_(functions) {}

  /// Throws InvalidArgument naming the schedule if there is no function.
  void check(const char* schedule) const;
  /// Throws InvalidArgument naming the schedule unless there is one function, or `groups` functions.
  void check_groups(const char* schedule, std::size_t groups) const;
  /// The factor of a group at that epoch.
  double at(std::int64_t epoch, std::size_t group) const;
  /// The product of a group's factors from epoch 1 to this one. Computes only the factors since the last call.
  double product(std::int64_t epoch, std::size_t group) const;

 private:
  struct Product {
    std::int64_t epoch = 0;
    double value = 1;
  };

  std::vector<Function> functions_;
  mutable std::vector<Product> products_ = {};  // the last product of each group
};

/// The rate is base * lr_lambda(epoch).
struct LambdaLROptions {
  RateFunctions lr_lambda;  ///< The factor of an epoch, from 0 on.
  void check() const { lr_lambda.check("LambdaLR"); }
  /// Throws InvalidArgument unless there is one function, or `groups` functions.
  void check_groups(std::size_t groups) const { lr_lambda.check_groups("LambdaLR", groups); }
  LOCKSTEP_API double lr(std::int64_t epoch, double base_lr, std::size_t group) const;  ///< The rate at that epoch.
};
using LambdaLR = BasicSchedule<LambdaLROptions>;

/// The rate is base * lr_lambda(1) * ... * lr_lambda(epoch).
struct MultiplicativeLROptions {
  RateFunctions lr_lambda;  ///< The factor of an epoch, from 1 on, which multiplies the previous rate.
  void check() const { lr_lambda.check("MultiplicativeLR"); }
  /// Throws InvalidArgument unless there is one function, or `groups` functions.
  void check_groups(std::size_t groups) const { lr_lambda.check_groups("MultiplicativeLR", groups); }
  LOCKSTEP_API double lr(std::int64_t epoch, double base_lr, std::size_t group) const;  ///< The rate at that epoch.
};
using MultiplicativeLR = BasicSchedule<MultiplicativeLROptions>;

}  // namespace lockstep::optim
