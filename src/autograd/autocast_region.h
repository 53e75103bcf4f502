// What stands behind Autocast: the dtype, and the casts of parameters. The replicas of a pass share it, each on its
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include <lockstep/tensor/tensor.h>

#include "core/ranked_mutex.h"

namespace lockstep::autograd {

class AutocastRegion {
 public:
  explicit AutocastRegion(DType dtype) : dtype_(dtype) {}
  AutocastRegion(const AutocastRegion&) = delete;
  AutocastRegion& operator=(const AutocastRegion&) = delete;

  DType dtype() const noexcept { return dtype_; }

  /// `x` in the region's dtype, differentiable. Other than float32 and 16-bit floats stay as they are. The cast of a
  /// leaf that requires a gradient is kept, for the stream that it was made on.
  Tensor cast(const Tensor& x);

 private:
  struct Kept {
    Tensor source;  // kept too, so that no other takes its address
    std::uint64_t version;
    Tensor result;
  };
  using Key = std::tuple<const TensorImpl*, int, bool>;  // the leaf, the stream, whether it is recorded

  const DType dtype_;
  RankedMutex<LockRank::autocast> mutex_;
  std::map<Key, Kept> kept_;  // under mutex_
};

}  // namespace lockstep::autograd
