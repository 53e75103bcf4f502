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
  std::optional<Communicator> first_devices;   // of the first one of each process

  /// In place: the sum or the mean of the tensors, which are on the group's first devices, and of those of the other
  /// processes: `all` in the whole job. Devices without a replica contribute what changes nothing, so that a short
  /// batch needs no communicator of its own.
  void sum(std::span<const Tensor> tensors, std::span<const Stream> streams);
  void mean(std::span<const Tensor> tensors, std::span<const Stream> streams, std::size_t all);
  /// In place, on the first device of each process: what that of one process has. Contiguous.
  void broadcast(const Tensor& tensor, std::size_t process);

 private:
  void all_reduce(std::span<const Tensor> tensors, std::span<const Stream> streams, ReduceOp op);
};

/// What a replica adds to a sum that has nothing to say: -0, since -0 + 0 would be 0.
void fill_nothing(const Tensor& tensor);

}  // namespace lockstep
