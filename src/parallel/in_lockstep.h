// A tensor and its copies on other devices, to which the same things happen. They keep one count of changes: where the
// counts differ, something has happened to one alone.
#pragma once

#include "tensor/copy.h"
#include "tensor/tensor_impl.h"

namespace lockstep {

inline bool are_in_lockstep(const Tensor& original, const Tensor& copy) noexcept {
  return original.impl()->storage->version == copy.impl()->storage->version;
}

/// The copy is a fresh one.
inline void begin_in_lockstep(const Tensor& original, const Tensor& copy) noexcept {
  copy.impl()->storage->version = original.impl()->storage->version.load();
}

/// Copies the values. That is a change of the copy, which backward must notice, so its count has to grow.
inline void bring_in_lockstep(const Tensor& original, const Tensor& copy) {
  copy_values(copy, original);
  bump_version(copy);
  std::atomic<std::uint64_t>&own = original.impl()->storage->version, &its = copy.impl()->storage->version;
  if (own < its) own = its.load();
  its = own.load();
}

}  // namespace lockstep
