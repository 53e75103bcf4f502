// The communicators of a ReplicaGroup. Safe from any thread.
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

  /// Sums or averages, in place, the tensors (which are on the group's first devices) and those of the other processes.
  /// `all`: the number of tensors in all processes, by which the mean divides. Devices without a replica contribute -0,
  /// so that a short batch needs no other communicator.
  void sum(std::span<const Tensor> tensors, std::span<const Stream> streams);
  void mean(std::span<const Tensor> tensors, std::span<const Stream> streams, std::size_t all);
  /// Copies the tensor of `process`, in place, to the first device of each process. The tensors are contiguous.
  void broadcast(const Tensor& tensor, std::size_t process);

 private:
  void all_reduce(std::span<const Tensor> tensors, std::span<const Stream> streams, ReduceOp op);
};

/// Fills the tensor with the identity of addition. This is -0, since -0 + 0 is 0 and -0 + -0 is -0.
void fill_sum_identity(const Tensor& tensor);

}  // namespace lockstep
