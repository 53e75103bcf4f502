#include "support/no_devices.h"

#include <utility>

#include "runtime/registry.h"

namespace lockstep {

NoDevices::NoDevices() : outer_(exchange_accelerators(std::make_shared<DeviceSet>(nullptr))) {}

NoDevices::~NoDevices() { exchange_accelerators(std::move(outer_)); }

}  // namespace lockstep
