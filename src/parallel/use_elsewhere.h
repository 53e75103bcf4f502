// Which parameters some process has a gradient of, though this one may not: a bit for each, exchanged while backward
// runs. Then a parameter that a process did not use gets the sum of those that did, as on one process's devices.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <lockstep/runtime/world.h>

#include "runtime/transport.h"

namespace lockstep {

/// Each process calls tell() and then found_out(), once for each backward that sums, from one thread at a time.
class UseElsewhere {
 public:
  explicit UseElsewhere(const World& world)
      : transport_(world.transport()), channel_(transport_->new_channels()), others_(std::size_t(world.size())) {}

  /// Sends, and waits for nobody.
  void tell(const std::vector<bool>& used);
  /// What any process told.
  std::vector<bool> found_out(std::size_t count);

 private:
  const std::shared_ptr<Transport> transport_;
  const int channel_;
  std::string own_;
  std::vector<std::string> others_;  // by process
  std::vector<PendingMessage> sent_, arriving_;
};

}  // namespace lockstep
