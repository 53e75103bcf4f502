// Finding the operation whose backward gives NaN.
#pragma once

#include <lockstep/core/export.h>

namespace lockstep {

/// While it lives, a backward() or gradients() that this thread calls looks at what each operation's backward gives,
/// and throws AutogradError at the first NaN: with the name of the forward operation, and the input whose gradient it
/// is. The host waits for the device after each operation: for looking for a fault, not for training.
/// DetectAnomaly(false) looks at nothing, within another one too.
///
///   const DetectAnomaly guard;
///   loss.backward();   // AutogradError: ... Sqrt ...
class LOCKSTEP_API DetectAnomaly {
 public:
  explicit DetectAnomaly(bool enabled = true) noexcept;
  ~DetectAnomaly();
  DetectAnomaly(const DetectAnomaly&) = delete;
  DetectAnomaly& operator=(const DetectAnomaly&) = delete;

 private:
  bool outer_;
};

namespace autograd {
using detect_anomaly = DetectAnomaly;      ///< PyTorch's name.
using DetectAnomalyGuard = DetectAnomaly;  ///< libtorch's name.
}  // namespace autograd

}  // namespace lockstep
