// UsedParameterMap: tells each process which parameters got a gradient in any process, with one bit per parameter,
// exchanged while backward runs. A parameter that got no gradient in this process then still gets the sum of the other
// processes' gradients, as with several devices of one process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <lockstep/distributed/world.h>

#include "distributed/transport.h"

namespace lockstep {

/// Each process calls publish() and then collect(), once for each backward that sums, from one thread at a time.
class UsedParameterMap {
 public:
  explicit UsedParameterMap(const World& world)
      : transport_(world.transport()), channel_(transport_->new_channels()), others_(std::size_t(world.size())) {}

  /// Sends the bits without waiting.
  void publish(const std::vector<bool>& used);
  /// Waits for the bits of all processes and returns their union.
  std::vector<bool> collect(std::size_t count);

 private:
  const std::shared_ptr<Transport> transport_;
  const int channel_;
  std::string own_;
  std::vector<std::string> others_;  // by process
  std::vector<PendingMessage> sent_, arriving_;
};

}  // namespace lockstep
