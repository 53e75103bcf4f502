// An operation takes part in autocast regions by one line before its checks:
//
//   if (const auto cast = autocast::product()) return mm(cast(a), cast(b));   // computed in the region's 16-bit dtype
//   if (const auto cast = autocast::wide()) return softmax(cast(x), dim);     // 16-bit inputs become float32
//
// An operation whose kernels take several dtypes need not cast: linear() uses casts of its inputs, and gives gradients
// in the inputs' own dtypes; layer_norm() reads 16 bits or float32, and writes cast.dtype(). While `cast` exists, the
// thread counts as outside of the region. So the repeated call passes this line, and the operations inside it use the
// dtypes of their inputs.
#pragma once

#include <lockstep/autograd/autocast.h>

#include "autograd/autocast_region.h"
#include "core/context.h"
#include "ops/dtypes.h"

namespace lockstep::autocast {

enum class Precision { product, wide };

/// Converts to true if it was made inside of a region.
template <Precision kPrecision>
class Cast {
 public:
  Cast() noexcept : region_(context().autocast) {
    if (region_) context().autocast = nullptr;
  }
  ~Cast() {
    if (region_) context().autocast = region_;
  }
  Cast(const Cast&) = delete;
  Cast& operator=(const Cast&) = delete;

  explicit operator bool() const noexcept { return region_ != nullptr; }
  DType dtype() const noexcept { return region_->dtype(); }  ///< The region's dtype.

  /// Undefined tensors stay undefined; float64 and integers stay as they are.
  Tensor operator()(const Tensor& x) const {
    if constexpr (kPrecision == Precision::product) {
      return region_->cast(x);
    } else {
      return x.defined() ? widened(x) : x;
    }
  }

 private:
  autograd::AutocastRegion* const region_;
};

[[nodiscard]] inline Cast<Precision::product> product() noexcept { return {}; }
[[nodiscard]] inline Cast<Precision::wide> wide() noexcept { return {}; }

}  // namespace lockstep::autocast
