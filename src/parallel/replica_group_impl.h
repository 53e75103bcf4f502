// The communicators that a group of replicas shares. Safe from any thread.
#pragma once

#include <optional>

#include <lockstep/parallel/collectives.h>
#include <lockstep/parallel/replica_group.h>

#include "core/ranked_mutex.h"

namespace lockstep {

struct ReplicaGroup::Impl {
  std::vector<Device> devices;
  World world;
  RankedMutex<LockRank::replica_group> mutex;  // guards the communicators, which only one thread at a time may use
  std::optional<Communicator> communicator;    // over all devices, however many replicas run
  std::optional<Communicator> first_devices;   // over the first device of each process

  /// In place: the sum or the mean of the tensors, which are on the group's first devices, and those of the other
  /// processes; `all` is the number of tensors that count in all processes. Devices without a replica contribute -0, so
  /// that a short batch needs no communicator of its own.
  void sum(std::span<const Tensor> tensors, std::span<const Stream> streams);
  void mean(std::span<const Tensor> tensors, std::span<const Stream> streams, std::size_t all);
  /// In place, on the first device of each process: copies the tensor of `process` to all. Contiguous.
  void broadcast(const Tensor& tensor, std::size_t process);

 private:
  void all_reduce(std::span<const Tensor> tensors, std::span<const Stream> streams, ReduceOp op);
};

/// Fills in the neutral element of a sum: -0, since -0 + 0 is 0.
void fill_sum_identity(const Tensor& tensor);

}  // namespace lockstep
