// Sums the gradients of replicas while backward still runs.
//
// Gradients live as views in flat buckets, one copy on each device. When the last gradient of a bucket is there on
// every device, the bucket is all-reduced on streams of its own. The idea and the sizes are those of PyTorch's
// DistributedDataParallel (Li et al., "PyTorch Distributed", VLDB 2020); since one process sees every replica, what a
// backward will reach is known before it starts, and nothing can wait for a gradient that never comes.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include <lockstep/nn/module.h>
#include <lockstep/runtime/communicator.h>
#include <lockstep/runtime/device.h>
#include <lockstep/runtime/world.h>

namespace lockstep {

class CallLog;

struct BucketOptions {
  std::size_t first_bytes = std::size_t(1) << 20;  ///< Of the bucket that is ready first: small, to start early.
  std::size_t bytes = std::size_t(25) << 20;       ///< Of the others.
  /// Divides optimizer state between the devices of all processes, whatever the optimizer: each of N holds a part in N
  /// of it, to 64 elements of each bucket (ZeRO stage 1: Rajbhandari et al. 2020). Backward reduce-scatters a bucket: a
  /// device has the sum of its shard only, which Optimizer::step() updates there and sends to the others. Parameters
  /// come out as without, bit for bit, but for the order of additions where several backwards accumulate or norms are
  /// clipped. State dicts are the same. grad() gathers a gradient, once. Several processes all call it then, as they do
  /// Optimizer::state_dict(), which gathers too.
  bool shard_optimizer_state = false;
  CommunicatorOptions communicator = {};  ///< Of the sums.
};

/// The gradients of one module and its replicas. After each backward that reaches a parameter, its gradient on every
/// device is the sum over the replicas, bit for bit the same; a parameter that none reached has none. Collectives of a
/// backward run on streams of their own, which the caller's current streams wait for; others on the current streams. A
/// thread of its own enqueues them, in the order of the buckets; backward throws what goes wrong there when it ends.
class LOCKSTEP_API GradientBuckets {
 public:
  GradientBuckets();  ///< For no replicas: does nothing.
  /// Whether backward sums gradients. Without, each device accumulates its own, until the next backward that sums, or
  /// until somebody asks for one or uses them: grad(), an optimizer's step, clipping.
  using Summing = std::shared_ptr<std::atomic<bool>>;

  /// modules[i] is on devices[i]; the first is the primary. Where the world has several processes all of them make
  /// theirs, of the same parameters, and sums are over all; `calls` is where optimizers then note what they do, and
  /// `lone_share` by how much this process's loss counts where it went through no pass of a model. Throws OutOfMemory.
  GradientBuckets(std::span<nn::ModuleBase* const> modules, std::span<const Device> devices,
                  const BucketOptions& options, Summing summing, const World& world = {},
                  const std::shared_ptr<CallLog>& calls = {}, double lone_share = 1);
  /// As release(), but does not throw: prints the error of a sum that failed, and drops the gradients.
  ~GradientBuckets();
  GradientBuckets(GradientBuckets&&) noexcept;
  GradientBuckets& operator=(GradientBuckets&&) noexcept;  ///< What this held is released.

  /// Takes in what requires a gradient in these modules, and did not when the buckets were made: it gets buckets of its
  /// own, behind the others. All processes do, of the same parameters. Throws AutogradError during a backward, and
  /// OutOfMemory: then nothing has changed.
  void add(std::span<nn::ModuleBase* const> modules);

  /// Before other replicas take the place of these: sums what is not summed. A backward through a graph of these throws
  /// AutogradError from then on, since their gradients could not be summed. Throws the errors of the sum. Where a
  /// device was lost, what was not summed is dropped.
  void release();
  /// False after release(), and when others were made for the primary meanwhile, which take it over.
  bool are_current() const noexcept;

  std::size_t bucket_count() const noexcept;  ///< How many there are.

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace lockstep
