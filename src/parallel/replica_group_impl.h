#pragma once

#include <map>
#include <mutex>

#include <lockstep/parallel/collectives.h>
#include <lockstep/parallel/replica_group.h>

namespace lockstep {

struct ReplicaGroup::Impl {
  std::vector<Device> devices;
  std::mutex mutex;                                   // of the communicators, which one thread at a time may use
  std::map<std::size_t, Communicator> communicators;  // of the first n devices

  /// In place, over as many of the first devices as there are tensors.
  void all_reduce(std::span<const Tensor> tensors, std::span<const Stream> streams, ReduceOp op);
};

}  // namespace lockstep
