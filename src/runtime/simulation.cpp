#include <lockstep/runtime/simulation.h>

#include <lockstep/core/error.h>

#include <iostream>

#include "backends/sim/sim_backend.h"
#include "core/text.h"
#include "runtime/memory/pinned_allocator.h"
#include "runtime/registry.h"

namespace lockstep {

using sim::FaultKind;

void FaultInjector::fail_allocation(Fault fault) { backend_->inject(FaultKind::allocation, fault); }
void FaultInjector::fail_copy(Fault fault) { backend_->inject(FaultKind::copy, fault); }
void FaultInjector::fail_launch(Fault fault) { backend_->inject(FaultKind::launch, fault); }
void FaultInjector::fail_collective(Fault fault) { backend_->inject(FaultKind::collective, fault); }
void FaultInjector::lose_device(Fault fault) { backend_->inject(FaultKind::loss, fault); }
void FaultInjector::drop_wait(Fault fault) { backend_->inject(FaultKind::wait, fault); }
void FaultInjector::drop_record(Fault fault) { backend_->inject(FaultKind::record, fault); }
void FaultInjector::clear() { backend_->clear_faults(); }

struct SimulatedDevices::State {
  std::shared_ptr<SimBackend> backend;
  std::shared_ptr<DeviceSet> devices;
  std::shared_ptr<DeviceSet> outer;
  FaultInjector fault;
};

namespace {

void report_leaks(DeviceSet& devices) {
  if (const std::size_t pinned = devices.pinned().in_use(); pinned != 0)
    std::cerr << text("[sim] leak: ", pinned, " bytes of page-locked memory in use at the end of the simulation\n");
  for (int i = 0; i < devices.count(); ++i) {
    const MemoryStats stats = devices.state(i).allocator.stats();
    if (const int empty = devices.state(i).empty_storages; empty != 0)
      std::cerr << text("[sim] leak on ", devices.state(i).device, ": ", empty,
                        " tensors without elements at the end of its simulation\n");
    if (stats.in_use == 0) continue;
    std::cerr << text("[sim] leak on ", devices.state(i).device, ": ", stats.in_use,
                      " bytes in use (blocks: ", stats.allocations - stats.frees, ") at the end of its simulation\n");
  }
}

}  // namespace

SimulatedDevices::SimulatedDevices(const SimulationOptions& options) {
  auto backend = std::make_shared<SimBackend>(options);
  auto devices = std::make_shared<DeviceSet>(backend);
  const FaultInjector fault(*backend);
  state_ = std::unique_ptr<State>(new State{std::move(backend), devices, nullptr, fault});
  state_->outer = exchange_accelerators(std::move(devices));
}

SimulatedDevices::~SimulatedDevices() {
  if (is_forked()) {  // the worker threads belong to the parent, as do the locks that they held
    static_cast<void>(state_.release());
    return;
  }
  for (const std::exception_ptr& error : state_->backend->drain())
    print_unreported("sim", "the simulation ended", error);
  exchange_accelerators(std::move(state_->outer));
  if (state_->devices->idle()) return;
  report_leaks(*state_->devices);
  retire(state_->devices);
}

FaultInjector& SimulatedDevices::fault() noexcept { return state_->fault; }

OperationCounts SimulatedDevices::counts(int device) const { return state_->backend->counts(device); }

}  // namespace lockstep
