// Sums the gradients of replicas while backward still runs.
//
// Gradients live as views in flat buckets, one copy on each device. When the last gradient of a bucket has arrived on
// every device, the bucket is all-reduced on separate streams. The idea and the sizes are those of PyTorch's
// DistributedDataParallel (Li et al., "PyTorch Distributed", VLDB 2020). One process drives all replicas, so the leaves
// that a backward will reach are known before it starts, and no bucket waits for a gradient that never arrives.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include <lockstep/distributed/world.h>
#include <lockstep/nn/module.h>
#include <lockstep/parallel/comm_hook.h>
#include <lockstep/parallel/shard.h>
#include <lockstep/runtime/communicator.h>
#include <lockstep/runtime/device.h>

namespace lockstep {

class CallLog;

struct BucketOptions {
  std::size_t first_bytes = std::size_t(1) << 20;  ///< Limit of the first bucket: small, to start early.
  std::size_t bytes = std::size_t(25) << 20;       ///< Limit of the other buckets.
  /// With Shard::gradients or Shard::parameters: the number of gradient buckets that are whole on a device at once;
  /// with Shard::parameters also the number of parameter buckets. At least 2. docs/sharding.md says when more are
  /// whole.
  std::size_t whole_buckets = 2;
  CommunicatorOptions communicator = {};  ///< The communicator that sums gradients.
  /// Replaces the all-reduce of a bucket (comm_hook.h). Not called with a single replica; cannot be combined with
  /// sharding. All processes must give the same hook.
  CommHook comm_hook = {};
};

/// The gradients of one module and its replicas. After each backward that reaches a parameter, every device has the sum
/// of the parameter's gradients over the replicas, with the same bits; a parameter that no replica reached has no
/// gradient. The sums run on separate streams, for which the caller's current streams wait; all-gathers of shards run
/// on the current streams. A launcher thread enqueues a backward's collectives in the order of the buckets; the end of
/// backward throws its errors.
class LOCKSTEP_API GradientBuckets {
 public:
  GradientBuckets();  ///< Makes an object without replicas, which does nothing.
  /// True if backward sums gradients. If false, each device accumulates its own gradients until the next backward that
  /// sums, or until a gradient is used: by grad(), an optimizer's step or clipping.
  using Summing = std::shared_ptr<std::atomic<bool>>;

  /// Throws InvalidArgument for options that exclude each other or are out of range.
  static void check(const BucketOptions& options, Shard shard);

  /// modules[i] is on devices[i]; the first is the primary. In a world of several processes, all must make buckets for
  /// the same parameters, and sums include all processes. Optimizers then log their calls in `calls`;
  /// `weight_without_pass` is the weight of this process's loss if the loss was computed without a pass of a model.
  /// Throws OutOfMemory, and the errors of check().
  GradientBuckets(std::span<nn::ModuleBase* const> modules, std::span<const Device> devices,
                  const BucketOptions& options, Shard shard, Summing summing, const World& world = {},
                  const std::shared_ptr<CallLog>& calls = {}, double weight_without_pass = 1);
  /// As release(), but prints the error of a sum that failed instead of throwing, and drops the gradients.
  ~GradientBuckets();
  GradientBuckets(GradientBuckets&&) noexcept;
  GradientBuckets& operator=(GradientBuckets&&) noexcept;  ///< Releases the buckets that this object held.

  /// Adds the tensors of these modules that require a gradient now but did not when the buckets were made. They get new
  /// buckets behind the others. All processes must call it with the same parameters. Throws AutogradError during a
  /// backward, and OutOfMemory, after which nothing has changed.
  void add(std::span<nn::ModuleBase* const> modules);

  /// Called before new replicas replace these: sums the gradients that are not summed yet. From then on, a backward
  /// through a graph of these replicas throws AutogradError, since their gradients could not be summed. Throws the
  /// errors of the sum. If a device was lost, the gradients that are not summed are dropped.
  void release();
  /// False after release(), and after other buckets were made for the primary (these then own its gradients).
  bool are_current() const noexcept;
  /// Called before each pass of the first `count` devices, in all processes: sends parameters that were changed by hand
  /// to all. Throws InvalidArgument in all processes if the changes differ (Shard::parameters).
  void begin_pass(std::size_t count);
  /// Called when device d has no further part in the pass, or none before backward.
  void leave_pass(std::size_t d, bool backward_follows) noexcept;
  /// From Shard::hybrid on: false if a parameter got other memory, as by Parameter::reset() or Module::to().
  bool have_parameters() const;

  std::size_t bucket_count() const noexcept;  ///< Number of buckets.

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace lockstep
