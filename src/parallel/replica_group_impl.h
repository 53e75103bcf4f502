// What a group of replicas shares on the devices' side. Safe from any thread.
#pragma once

#include <optional>

#include <lockstep/parallel/collectives.h>
#include <lockstep/parallel/replica_group.h>

#include "core/ranked_mutex.h"

namespace lockstep {

struct ReplicaGroup::Impl {
  std::vector<Device> devices;
  World world;
  RankedMutex<LockRank::replica_group> mutex;  // of the communicator, which one thread at a time may use
  std::optional<Communicator> communicator;    // of all devices, whatever the number of replicas that run

  /// In place: the sum or the mean of the tensors, which are on the group's first devices, and of those of the other
  /// processes: `all` in the whole job. Devices without a replica contribute what changes nothing, so that a short
  /// batch needs no communicator of its own.
  void sum(std::span<const Tensor> tensors, std::span<const Stream> streams);
  void mean(std::span<const Tensor> tensors, std::span<const Stream> streams, std::size_t all);

 private:
  void all_reduce(std::span<const Tensor> tensors, std::span<const Stream> streams, ReduceOp op);
};

}  // namespace lockstep
