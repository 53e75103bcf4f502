// Anomaly detection: finds the operation whose backward returns NaN.
#pragma once

#include <lockstep/core/export.h>

namespace lockstep {

/// While it lives, every backward() and gradients() that this thread calls checks the gradients that each operation's
/// backward returns, and throws AutogradError at the first NaN, with the names of the forward operation and of the
/// input whose gradient it is. The host waits for the device after each operation: use it to find a fault, not for
/// training. DetectAnomaly(false) switches the checks off, also within another DetectAnomaly.
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
