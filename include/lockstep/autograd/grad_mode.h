// Whether operations on this thread are recorded for backward. Replicas inherit the caller's mode.
#pragma once

#include <lockstep/core/export.h>

namespace lockstep {

LOCKSTEP_API bool grad_enabled() noexcept;  ///< Whether operations of this thread are recorded now.

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

/// Nothing is recorded on this thread while it lives.
class LOCKSTEP_API NoGrad : private GradMode {
 public:
  NoGrad() noexcept : GradMode(false) {}
};
using NoGradGuard = NoGrad;  ///< libtorch's name.

/// As NoGrad, under the name that PyTorch's programs for inference use. Tensors made under it are ordinary ones: they
/// may be used in recorded operations later. InferenceMode(false) records, within another one too.
class LOCKSTEP_API InferenceMode : private GradMode {
 public:
  explicit InferenceMode(bool enabled = true) noexcept : GradMode(!enabled) {}
};

}  // namespace lockstep
