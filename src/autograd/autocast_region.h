// The state of an Autocast region: the dtype, and the cached casts of parameters. The threads of all replicas of a pass
// share it.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include <lockstep/tensor/tensor.h>

#include "core/ranked_mutex.h"
#include "tensor/transient_memory.h"

namespace lockstep::autograd {

class AutocastRegion {
 public:
  explicit AutocastRegion(DType dtype) : dtype_(dtype) {}
  AutocastRegion(const AutocastRegion&) = delete;
  AutocastRegion& operator=(const AutocastRegion&) = delete;

  DType dtype() const noexcept { return dtype_; }

  /// Returns `x` in the region's dtype, differentiable. Dtypes other than float32 and the 16-bit floats are not cast.
  /// The cast of a leaf that requires a gradient is cached for the stream on which it was made.
  /// The cast of a sharded parameter has no memory of its own: it follows the parameter, and backward refuses it after
  /// a change.
  Tensor cast(const Tensor& x);

 private:
  struct Kept {
    Tensor source;  // keeps the leaf alive, so that no other tensor gets its address
    std::uint64_t version;
    const TransientMemory* memory;  // of the leaf; null if it has memory of its own
    Tensor result;
  };
  using Key = std::tuple<const TensorImpl*, int, bool>;  // the leaf, the stream's id, true if gradients are recorded

  const DType dtype_;
  RankedMutex<LockRank::autocast> mutex_;
  std::map<Key, Kept> kept_;  // under mutex_
};

}  // namespace lockstep::autograd
