// Collectives between the replicas of a pass while they run: sums over all of them, for synchronized batch norm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <lockstep/distributed/world.h>
#include <lockstep/runtime/device.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// The communicator of the replicas on `devices`. It is made on first use and kept for later passes, even if fewer
/// replicas run in some of them. Safe from any thread.
class LOCKSTEP_API ReplicaGroup {
 public:
  /// If the world has several processes, their replicas are included, in the order of the processes.
  explicit ReplicaGroup(std::span<const Device> devices, const World& world = {});
  ~ReplicaGroup();
  ReplicaGroup(const ReplicaGroup&) = delete;
  ReplicaGroup& operator=(const ReplicaGroup&) = delete;

  bool has_other_processes() const noexcept;  ///< True if replicas of other processes take part.
  bool has_one_replica() const noexcept;      ///< True for a single device of a single process.

  struct Impl;
  /// For the library.
  Impl& impl() const noexcept { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// Returns the sum of x over the replicas of this pass, on each replica's own device and current stream, with the same
/// bits on all. Every replica must make the same calls in the same order, with the same shape and dtype; each call
/// waits on the host until all replicas have made it. Outside of replicas it returns x itself. Differentiable, to any
/// order: the gradient is the sum of the replicas' gradients. Throws ShapeError or DTypeError if replicas differ, and
/// CollectiveError if a replica ended without this call. Processes run the sums of a backward in the reverse order of
/// forward. If two processes have different sums (named by `what`), backward() throws InvalidArgument in all.
LOCKSTEP_API Tensor sum_over_replicas(const Tensor& x, const std::string& what = "a sum");

/// Like the function above, for a host integer. Throws InvalidArgument if processes name different sums.
LOCKSTEP_API std::int64_t sum_over_replicas(std::int64_t x, const std::string& what = "a sum");

}  // namespace lockstep
