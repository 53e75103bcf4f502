// Counts the operations of simulated devices and decides which of them fail. The caller guards it with a lock.
#pragma once

#include <lockstep/runtime/simulation.h>

#include <array>
#include <vector>

namespace lockstep::sim {

/// The operations that can fail. A loss counts launches, copies and collectives together.
enum class FaultKind : std::uint8_t { allocation, copy, launch, record, wait, collective, loss, host_wait, peer_copy };

class Faults {
 public:
  enum class Verdict : std::uint8_t { works, fails, lost };

  explicit Faults(int devices) : devices_(std::size_t(devices)) {}

  /// Throws InvalidArgument for a device that does not exist, or an nth or count of 0.
  void inject(FaultKind kind, const Fault& fault);
  void clear();

  /// Counts one operation of the device, and returns its outcome.
  Verdict next(FaultKind kind, int device);

  bool is_lost(int device) const noexcept { return devices_[std::size_t(device)].lost; }
  OperationCounts counts(int device) const;

 private:
  static constexpr std::size_t kKinds = 9;
  struct Window {  // the operations from first to last fail
    std::uint64_t first = 0;
    std::uint64_t last = 0;
  };
  struct DeviceFaults {
    std::array<std::uint64_t, kKinds> counts = {};
    std::array<std::vector<Window>, kKinds> windows;
    bool lost = false;

    bool step(FaultKind kind);
  };

  std::vector<DeviceFaults> devices_;
};

}  // namespace lockstep::sim
