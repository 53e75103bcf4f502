// A tensor and its copies on other devices are in lockstep as long as they change together, and so keep equal values.
// Their version counts (which count in-place changes) are then equal; a difference shows that one of them changed
// alone.
#pragma once

#include "tensor/copy.h"
#include "tensor/tensor_impl.h"

namespace lockstep {

inline bool are_in_lockstep(const Tensor& original, const Tensor& copy) noexcept {
  return original.impl()->storage->version == copy.impl()->storage->version;
}

/// Call this for a fresh copy. Sets the copy's version count to the original's.
inline void begin_in_lockstep(const Tensor& original, const Tensor& copy) noexcept {
  copy.impl()->storage->version = original.impl()->storage->version.load();
}

/// Copies the original's values to the copy, or, if the original is sharded, sends them to the shares of all devices.
/// Backward must notice that the copy changed, so the copy's version count has to grow.
inline void bring_in_lockstep(const Tensor& original, const Tensor& copy) {
  if (const auto& memory = original.impl()->storage->transient; memory && copy.impl()->storage->transient)
    memory->publish();
  else
    copy_values(copy, original);
  bump_version(copy);
  std::atomic<std::uint64_t>&own = original.impl()->storage->version, &its = copy.impl()->storage->version;
  if (own < its) own = its.load();
  its = own.load();
}

}  // namespace lockstep
