// group_norm on a GPU: one grid for the forward; for the backward one grid for the gradient of x and each image's sums
// for weight and bias, and one that adds these sums (ops/group_norm_cuda.h). There is no host form: on the host,
// group_norm is composed of other operations.
#pragma once

#include <cstdint>

#include <lockstep/kernels/cuda/walk.h>

#include "kernels/launch.h"
#include "ops/norm_gradient.h"

namespace lockstep {

/// Dense images [batch, groups, channels of a group, inner]. A row is one group of one image.
struct GroupExtent {
  std::int64_t batch, groups, of_group, inner;

  LOCKSTEP_HD std::int64_t rows() const { return batch * groups; }
  LOCKSTEP_HD std::int64_t length() const { return of_group * inner; }
  LOCKSTEP_HD std::int64_t channels() const { return groups * of_group; }
};

template <class Element>
struct GroupNormKernel {
  using T = Element;
  using C = ComputeType<T>;

  GroupExtent extent;
  C eps;
  const T *x, *weight, *bias;  // weight, bias: [channels], or null
  T* y;
};

template <class Element>
struct GroupGradientKernel {
  using T = Element;
  using C = ComputeType<T>;
  static constexpr int kSums = 2;  // the sum of g y, and the sum of g

  GroupExtent extent;
  C eps;
  const T *g, *x, *weight;  // weight: or null
  T* of_x;
  T *of_weight, *of_bias;  // [channels], or null
  C* partial;              // [batch, kSums, channels]
  std::int64_t length;     // channels: for the grid that adds the images' sums

  LOCKSTEP_HD std::int64_t pieces() const { return extent.batch; }
  LOCKSTEP_HD void store(std::int64_t c, double sum) const {
    if (c < length) {
      if (of_weight) of_weight[c] = T(C(sum));
    } else if (of_bias) {
      of_bias[c - length] = T(C(sum));
    }
  }
};

}  // namespace lockstep

#ifdef LOCKSTEP_DEVICE_FORMS
#include "ops/group_norm_cuda.h"
#endif
