// What the replicas of a pass do together while they run: sums over all of them, as synchronized batch norm needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <lockstep/runtime/device.h>
#include <lockstep/runtime/world.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// The communicator of replicas on `devices`, made when first used and kept for later passes, whatever the number of
/// replicas that run in each. Any thread.
class LOCKSTEP_API ReplicaGroup {
 public:
  /// With those of other processes, if the world has several: they sum together, in the order of the processes.
  explicit ReplicaGroup(std::span<const Device> devices, const World& world = {});
  ~ReplicaGroup();
  ReplicaGroup(const ReplicaGroup&) = delete;
  ReplicaGroup& operator=(const ReplicaGroup&) = delete;

  bool has_other_processes() const noexcept;  ///< Whether replicas of other processes take part.
  bool has_one_replica() const noexcept;      ///< Whether there is one device, of one process.

  struct Impl;
  /// For the library.
  Impl& impl() const noexcept { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// The sum of x over the replicas of this pass, on each replica's own device and current stream, the same bits on all.
/// Every replica has to call it, in the same order, with the same shape and dtype: it waits on the host until all have
/// come. Outside of replicas, x itself. Differentiable, to any order: the gradient is the sum of the replicas'
/// gradients. Throws ShapeError or DTypeError for what differs between replicas, and CollectiveError when a replica
/// ended without coming. Processes run the sums of a backward in the reverse order of forward; where one lacks a sum
/// that another has, or names another one (`what`), backward() throws InvalidArgument in all.
LOCKSTEP_API Tensor sum_over_replicas(const Tensor& x, const std::string& what = "a sum");

/// The same for a number of the host's. Throws InvalidArgument where processes name different sums.
LOCKSTEP_API std::int64_t sum_over_replicas(std::int64_t x, const std::string& what = "a sum");

}  // namespace lockstep
