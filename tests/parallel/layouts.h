// Runs a job on several devices of one process or of several, simulated as threads.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>
#include <vector>

#include <lockstep/distributed/world.h>
#include <lockstep/parallel/data_parallel_options.h>
#include <lockstep/runtime/simulation.h>

#include "support/in_processes.h"

namespace lockstep::testing {

struct Layout {
  int processes, devices;  // of each process
};

inline constexpr std::array kLayouts = {Layout{1, 1}, Layout{1, 2}, Layout{1, 3}, Layout{1, 5},
                                        Layout{2, 1}, Layout{2, 2}, Layout{3, 1}};

inline std::string text_of(const Layout& layout) {
  return std::to_string(layout.processes) + " x " + std::to_string(layout.devices);
}

/// Runs `job` in each process, with the process's devices. Fails if it throws.
inline void for_each_process(const Layout& layout, const std::function<void(const World&, const DeviceIds&)>& job) {
  const SimulatedDevices devices({.count = layout.processes * layout.devices});
  for (const std::exception_ptr& failure : in_processes(layout.processes, [&](const World& world) {
         DeviceIds ids;
         for (int d = 0; d < layout.devices; ++d) ids.push_back(world.rank().value() * layout.devices + d);
         job(world, ids);
       }))
    try {
      if (failure) std::rethrow_exception(failure);
    } catch (const std::exception& error) {
      ADD_FAILURE() << text_of(layout) << ": " << error.what();
    }
}

}  // namespace lockstep::testing
