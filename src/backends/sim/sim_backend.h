// Simulated GPUs as a Backend: strict, asynchronous and adversarial. docs/simulation.md says what is checked and how.
//
// One lock guards the host's side: memory, clocks, faults, events, and the order in which tasks enter the streams. The
// streams' worker threads never take it. Safe from any thread.
#pragma once

#include <lockstep/runtime/simulation.h>

#include <chrono>
#include <memory>
#include <vector>

#include "backends/sim/faults.h"
#include "backends/sim/linked_devices.h"
#include "backends/sim/race_checker.h"
#include "backends/sim/sim_graphs.h"
#include "backends/sim/sim_memory.h"
#include "backends/sim/sim_stream.h"
#include "core/ranked_mutex.h"
#include "runtime/backend.h"
#include "runtime/memory/allocator_hooks.h"

namespace lockstep {

/// Throws InvalidArgument unless the count is 1 to 64 and no delay is negative.
std::shared_ptr<Backend> make_sim_backend(const SimulationOptions& options);

class SimBackend final : public Backend, public AllocatorHooks {
 public:
  /// Throws as make_sim_backend does.
  explicit SimBackend(const SimulationOptions& options);
  ~SimBackend() override;  ///< Waits for all work first.

  DeviceType type() const noexcept override { return DeviceType::cuda; }
  int device_count() const noexcept override { return options_.count; }
  DeviceProperties properties(int device) const override;
  bool is_lost(int device) noexcept override;
  Graphs* graphs() noexcept override { return &graphs_; }

  void* allocate(int device, std::size_t bytes) override;
  void deallocate(int device, void* memory, std::size_t bytes) noexcept override;
  void* allocate_pinned(std::size_t bytes) override;
  void deallocate_pinned(void* memory, std::size_t bytes) noexcept override;
  void host_writes(const void* memory, std::size_t bytes) override;
  bool admits(int device, std::size_t bytes) override;
  void discard(StreamHandle stream, void* memory, std::size_t bytes) noexcept override;

  void* create_stream(int device, int id, StreamPriority priority) override;
  bool query_stream(StreamHandle stream) override;
  void synchronize_stream(StreamHandle stream) override;
  EventHandle create_event(int device) override;
  void destroy_event(EventHandle event) noexcept override;
  void record(EventHandle event, StreamHandle stream) override;
  void wait(StreamHandle stream, EventHandle event) override;
  bool query_event(EventHandle event) override;
  void synchronize_event(EventHandle event) override;
  bool query_use(EventHandle event, void* memory, std::size_t bytes) override;

  void launch(StreamHandle stream, const LaunchInfo& info, KernelRef kernel) override;
  void copy(StreamHandle stream, const Copy& copy) override;
  void matmul(StreamHandle stream, const Matmul& matmul) override;
  std::optional<std::size_t> workspace_size(int device, const FusedOp& op) override;
  void fused(StreamHandle stream, const FusedOp& op, void* workspace) override;

  CommunicatorHandle create_communicator(std::span<const int> devices, const Peers& peers,
                                         const CommunicatorOptions& options) override;
  void destroy_communicator(CommunicatorHandle communicator) noexcept override;
  void abort_communicator(CommunicatorHandle communicator) noexcept override;
  void collective(CommunicatorHandle communicator, const CollectiveCall& call) override;
  std::uint64_t communicator_failures(CommunicatorHandle communicator) const noexcept override;

  // Functions beyond the Backend interface.
  void inject(sim::FaultKind kind, const Fault& fault);
  void clear_faults();
  OperationCounts counts(int device) const;
  /// Waits for all work; returns the errors that were not reported to anybody, and clears them.
  std::vector<std::exception_ptr> drain();
  /// The number of past accesses that the race checker keeps.
  std::size_t history_size() const;

 private:
  /// A position in a stream's work, as an event marks it; or no position, if `stream` is null.
  struct Moment {
    sim::SimStream* stream = nullptr;
    std::uint64_t ticket = 0;
    sim::Clock clock;
  };
  struct Freed {
    void* memory;
    std::vector<Moment> users;
  };
  static sim::SimStream& stream_of(StreamHandle handle) { return *static_cast<sim::SimStream*>(handle.native); }
  static Moment& moment_of(EventHandle event) { return *static_cast<Moment*>(event); }

  // Call these with the lock held.
  Moment now(sim::SimStream& stream) const;
  void forget(const char* op, void* memory, std::size_t bytes) noexcept;
  void declare(sim::SimStream& stream, const char* op, std::span<const MemoryAccess> accesses);
  void declare(const CollectiveCall& call);
  void enqueue(sim::SimStream& stream, sim::FaultKind kind, sim::Task task);
  void fail(sim::SimStream& stream, const char* op, std::exception_ptr error) noexcept;
  bool capture_collective(CommunicatorHandle communicator, const CollectiveCall& call);
  std::shared_ptr<sim::AsyncError> loss_of(int device, const char* op);

  // Call these without holding the lock.
  std::vector<Moment> everything() const;
  void release(const char* op, int device, void* memory, std::size_t bytes) noexcept;
  void release_unused() noexcept;
  std::shared_ptr<sim::AsyncError> wait_for(const Moment& moment);
  void reach(const Moment& moment);
  [[noreturn]] void clear_and_throw(sim::AsyncError& error, int device);
  void let_through(int device);
  [[noreturn]] void refuse_allocation(int device);

  const SimulationOptions options_;
  sim::SimGraphs graphs_{*this};
  const std::chrono::microseconds awake_;  // how long a waiting thread polls before it sleeps
  mutable RankedMutex<LockRank::sim_backend> mutex_;
  sim::SimMemory memory_;
  sim::RaceChecker races_;
  sim::Faults faults_;
  sim::LinkedDevices links_;
  std::vector<std::shared_ptr<sim::AsyncError>> losses_;  // by device: the error of its work after it was lost
  std::vector<std::unique_ptr<sim::SimStream>> streams_;
  std::vector<Freed> freed_;  // which work may still use
};

}  // namespace lockstep
