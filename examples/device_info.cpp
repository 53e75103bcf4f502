// device_info: a table of all devices with their memory, in the manner of nvidia-smi.
//   device_info                the devices of this machine, or those in LOCKSTEP_DEVICES
//   device_info --simulate 4   four simulated GPUs
#include <lockstep/runtime/memory.h>
#include <lockstep/runtime/simulation.h>

#include <exception>
#include <iostream>

#include "arguments.h"

int main(int argc, char** argv) try {
  const auto simulated = simulated_if_asked(argc, argv);
  lockstep::print_devices(std::cout);
} catch (const std::exception& error) {
  std::cerr << "device_info: " << error.what() << '\n';
  return 1;
}
