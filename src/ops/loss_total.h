// The sum or the weighted mean of the losses of many rows.
#pragma once

#include <cstdint>

#include <lockstep/kernels/row_team.h>

#include "kernels/launch.h"

namespace lockstep {

/// The kernel that computes `total`. On a GPU it is one grid for few rows, otherwise two grids (ops/loss_total_cuda.h).
template <class Element>
struct LossTotal {
  using C = Element;

  const C *losses, *weights;
  std::int64_t rows, step;  // step: in elements, between two rows
  C* total;                 // {the sum or the mean; the divisor of the losses}
  bool mean;

  void operator()(const KernelContext&) const {
    store(sum_over(OneThread(), rows, [this](std::int64_t r) { return of_row(r); }));
  }

  LOCKSTEP_HD TwoSums<double> of_row(std::int64_t r) const {
    return {double(losses[r * step]), double(weights[r * step])};
  }
  LOCKSTEP_HD void store(const TwoSums<double>& sums) const {
    total[0] = C(mean ? sums.first / sums.second : sums.first);
    total[1] = C(mean ? sums.second : 1);
  }
};

}  // namespace lockstep

#ifdef LOCKSTEP_DEVICE_FORMS
#include "ops/loss_total_cuda.h"
#endif
