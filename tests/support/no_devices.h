#pragma once

#include <memory>

namespace lockstep {

class DeviceSet;

/// For a scope: a machine without a GPU.
class NoDevices {
 public:
  NoDevices();
  ~NoDevices();
  NoDevices(const NoDevices&) = delete;
  NoDevices& operator=(const NoDevices&) = delete;

 private:
  std::shared_ptr<DeviceSet> outer_;
};

}  // namespace lockstep
