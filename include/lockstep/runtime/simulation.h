// Simulated GPUs: real numerics and asynchrony on any machine, with a memory limit, injected faults and a
// happens-before race checker. docs/simulation.md says what is checked and how.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/core/export.h>
#include <lockstep/distributed/world.h>

namespace lockstep {

struct SimulationOptions {
  int count = 1;                                    ///< Number of devices, 1 to 64.
  std::size_t memory_bytes = std::size_t(1) << 30;  ///< Memory of each device.
  std::uint64_t seed = 0;                           ///< Seed of the random delays.
  int max_delay_us = 0;                             ///< Some tasks are held back for a random time up to this.
  bool poison = true;                               ///< Fill memory with NaN patterns when allocated and when freed.
  bool check_races = true;                          ///< Throw RaceError if two conflicting accesses are not ordered.
};

/// A device's operations from the nth on fail, `count` in all. Operations are counted from 1, from the call that
/// injects the fault.
struct Fault {
  int device = 0;
  std::uint64_t nth = 1;    ///< The number of the first operation that fails.
  std::uint64_t count = 1;  ///< The number of operations that fail.
};

/// How many operations of each kind a device has executed since it was made.
struct OperationCounts {
  std::uint64_t allocations = 0;  ///< Requests to the caching allocator.
  std::uint64_t copies = 0;       ///< Memory copies.
  std::uint64_t launches = 0;     ///< Kernel launches, including matrix products.
  std::uint64_t events = 0;       ///< Event records.
  std::uint64_t waits = 0;        ///< Waits of a stream for an event.
  std::uint64_t peer_copies = 0;  ///< Copies to another device, also counted in `copies`.
  std::uint64_t host_waits = 0;   ///< Waits of the host for a stream or an event, and copies to the host.
  std::uint64_t collectives = 0;  ///< Collectives with the device as a rank.
};

/// Injects faults into simulated devices. Safe from any thread.
class LOCKSTEP_API FaultInjector {
 public:
  void fail_allocation(Fault fault);  ///< Throws OutOfMemory from the request itself.
  void fail_copy(Fault fault);        ///< BackendError, asynchronously: thrown when the host synchronizes.
  void fail_launch(Fault fault);      ///< BackendError, asynchronously.
  void fail_collective(Fault fault);  ///< CollectiveError on all ranks, asynchronously.
  /// From its nth launch, copy or collective on, all work of the device fails, until clear().
  void lose_device(Fault fault);
  void drop_wait(Fault fault);    ///< Skips a stream's wait for an event: simulates a forgotten wait.
  void drop_record(Fault fault);  ///< Skips the record of an event: simulates a forgotten record.
  void clear();                   ///< Removes all faults, and brings lost devices back.

 private:
  friend class SimulatedDevices;
  explicit FaultInjector(class SimBackend& backend) : backend_(&backend) {}
  class SimBackend* backend_;
};

/// Replaces cuda:* by simulated devices for a scope. Scopes nest. Tensors should not outlive the scope that made their
/// devices: memory still in use at its end is reported on standard error, and kept alive.
class LOCKSTEP_API SimulatedDevices {
 public:
  explicit SimulatedDevices(const SimulationOptions& options);
  ~SimulatedDevices();
  SimulatedDevices(const SimulatedDevices&) = delete;
  SimulatedDevices& operator=(const SimulatedDevices&) = delete;

  FaultInjector& fault() noexcept;           ///< Injects faults into these devices.
  OperationCounts counts(int device) const;  ///< Throws InvalidArgument for a device that is not there.

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The processes of a job, simulated as threads of this one: returns the World of each. Use each World from a thread of
/// its own, with devices that no other thread uses. The threads share per-process state such as the default sequence of
/// random numbers: use a GeneratorGuard. Do not use a World after the point where a real process would have ended.
LOCKSTEP_API std::vector<World> simulate_processes(int count,
                                                   std::chrono::milliseconds time_limit = std::chrono::seconds(30));

}  // namespace lockstep
