// Simulated GPUs: real numerics and asynchrony on any machine, with a memory limit, injected faults and
// a checker of happens-before. docs/simulation.md says what is checked and how.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/core/export.h>
#include <lockstep/runtime/world.h>

namespace lockstep {

struct SimulationOptions {
  int count = 1;                                    ///< Devices, 1 to 64.
  std::size_t memory_bytes = std::size_t(1) << 30;  ///< Of each device.
  std::uint64_t seed = 0;                           ///< Of the delays.
  int max_delay_us = 0;                             ///< Some tasks are held back for a random time up to this.
  bool poison = true;                               ///< Fill memory with NaN patterns when allocated and when freed.
  bool check_races = true;                          ///< Throw RaceError where two accesses are not ordered.
};

/// Which device's n-th operation (from 1, counted from the call that injects the fault) fails; `count` in a row do.
struct Fault {
  int device = 0;
  std::uint64_t nth = 1;    ///< The first one that fails.
  std::uint64_t count = 1;  ///< How many fail.
};

/// How many operations of each kind a device has seen since it was made.
struct OperationCounts {
  std::uint64_t allocations = 0;  ///< Requests to the caching allocator.
  std::uint64_t copies = 0;       ///< Of memory.
  std::uint64_t launches = 0;     ///< Of kernels, matrix products among them.
  std::uint64_t events = 0;       ///< Records.
  std::uint64_t waits = 0;        ///< Of a stream for an event.
  std::uint64_t peer_copies = 0;  ///< Of the copies, those to another device.
  std::uint64_t host_waits = 0;   ///< Of the host for a stream or an event, and copies to the host.
  std::uint64_t collectives = 0;  ///< That the device was a rank of.
};

/// Injects faults into simulated devices. Safe from any thread.
class LOCKSTEP_API FaultInjector {
 public:
  void fail_allocation(Fault fault);  ///< Throws OutOfMemory where it is requested.
  void fail_copy(Fault fault);        ///< BackendError, asynchronously: thrown where the host synchronizes.
  void fail_launch(Fault fault);      ///< BackendError, asynchronously.
  void fail_collective(Fault fault);  ///< CollectiveError on all ranks, asynchronously.
  /// From its nth launch, copy or collective on, all work of the device fails until clear().
  void lose_device(Fault fault);
  void drop_wait(Fault fault);    ///< A stream's wait for an event is skipped: what a forgotten wait does.
  void drop_record(Fault fault);  ///< An event marks nothing: what a forgotten record does.
  void clear();                   ///< Takes back all faults, and brings lost devices back.

 private:
  friend class SimulatedDevices;
  explicit FaultInjector(class SimBackend& backend) : backend_(&backend) {}
  class SimBackend* backend_;
};

/// Replaces cuda:* by simulated devices while it lives. Scopes nest; tensors should not outlive the scope that
/// made their devices: what is still in use then is reported on standard error, and kept alive.
class LOCKSTEP_API SimulatedDevices {
 public:
  explicit SimulatedDevices(const SimulationOptions& options);
  ~SimulatedDevices();
  SimulatedDevices(const SimulatedDevices&) = delete;
  SimulatedDevices& operator=(const SimulatedDevices&) = delete;

  FaultInjector& fault() noexcept;           ///< Of these devices.
  OperationCounts counts(int device) const;  ///< Throws InvalidArgument for a device that is not there.

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The processes of a job as threads of this one: the World of each, to be used from a thread of its own with devices
/// that no other uses. They share what a process has one of, such as its sequence of random numbers: use a
/// GeneratorGuard. A World must not be used for longer than it would be in a process of its own.
LOCKSTEP_API std::vector<World> simulate_processes(int count,
                                                   std::chrono::milliseconds time_limit = std::chrono::seconds(30));

}  // namespace lockstep
