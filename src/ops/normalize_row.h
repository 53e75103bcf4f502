// The forward of layer_norm and rms_norm for one row.
#pragma once

#include <lockstep/core/vectorized.h>
#include <lockstep/kernels/row_team.h>

#include "ops/norm_gradient.h"

namespace lockstep {

// y = (x - mean) / sqrt(variance + eps) * weight + bias. If the weight or bias is missing, the row of x is read in its
// place and not used, because GCC 14 does not vectorize a loop that reads only under a condition.
struct RowAffine {
  bool weighted, biased;
  template <class C, class AnyRow, class Index>
  LOCKSTEP_HD C scaled(C value, const AnyRow& weight, const Index& i) const {
    const C w = C(weight[i]);
    return weighted ? value * w : value;
  }
  template <class C, class AnyRow, class Index>
  LOCKSTEP_HD C shifted(C value, const AnyRow& bias, const Index& i) const {
    const C b = C(bias[i]);
    return biased ? value + b : value;
  }
};

// rms_norm is not centered: it uses 0 as the mean, always has a weight, and has no bias.
template <class T, bool kCentered>
struct NormalizeRow {
  using C = ComputeType<T>;
  using Wide = NormalizeRow<C, kCentered>;
  C eps;
  RowAffine affine;
  template <class Team, class To, class From, class... Bias>
  requires(sizeof...(Bias) == int(kCentered)) LOCKSTEP_HD void operator()(const Team& team, To y, From from,
                                                                          From weight, Bias... bias) const {
    const auto& x = team.kept(from);
    const auto value = [&](auto i) { return C(x[i]); };
    NormRowStats<C> of;
    find_scale<kCentered>(
        of, x.length, eps, [&](const auto& term) LOCKSTEP_INLINE { return sum_over(team, x.length, term); }, value);
    team.fill(y, [&](auto i) {
      const C scaled = affine.scaled(of.normal(value(i)), weight, i);
      if constexpr (kCentered)
        return T(affine.shifted(scaled, bias..., i));
      else
        return T(scaled);
    });
  }
};

}  // namespace lockstep
