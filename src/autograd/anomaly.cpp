#include <lockstep/autograd/anomaly.h>

#include <utility>

#include "core/context.h"

namespace lockstep {

DetectAnomaly::DetectAnomaly(bool enabled) noexcept : outer_(std::exchange(context().detects_anomaly, enabled)) {}
DetectAnomaly::~DetectAnomaly() { context().detects_anomaly = outer_; }

}  // namespace lockstep
