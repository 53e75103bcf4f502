// Gradient mode: switches recording for backward on and off on this thread. Replicas inherit the caller's mode.
#pragma once

#include <lockstep/core/export.h>

namespace lockstep {

LOCKSTEP_API bool grad_enabled() noexcept;  ///< True if this thread records operations.

/// Sets the mode of this thread for a scope.
class LOCKSTEP_API GradMode {
 public:
  explicit GradMode(bool enabled) noexcept;
  ~GradMode();
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool outer_;
};

/// While it lives, this thread records no operations.
class LOCKSTEP_API NoGrad : private GradMode {
 public:
  NoGrad() noexcept : GradMode(false) {}
};
using NoGradGuard = NoGrad;  ///< libtorch's name.

/// Does what NoGrad does, under the name that PyTorch's inference programs use. Tensors that are made in this mode are
/// ordinary tensors; recorded operations may use them later. InferenceMode(false) switches recording on, also within
/// another InferenceMode.
class LOCKSTEP_API InferenceMode : private GradMode {
 public:
  explicit InferenceMode(bool enabled = true) noexcept : GradMode(!enabled) {}
};

}  // namespace lockstep
