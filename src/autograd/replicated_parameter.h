// The interface of a parameter with replicas on several devices, for backward and optimizers. The parallel layer
// implements it and documents the states of its gradient: parallel/bucketed_parameter.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <lockstep/distributed/world.h>
#include <lockstep/tensor/tensor.h>

#include "distributed/call_log.h"

namespace lockstep::autograd {

class ReplicatedParameter;

/// Elements [begin, end) of a tensor, in memory order.
struct ShardRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const noexcept { return end - begin; }
  bool operator==(const ShardRange&) const = default;
};

/// How a sharded parameter is divided between the devices of several processes.
struct ShardLayout {
  World world;
  std::size_t first_rank;          ///< The rank of this process's first replica.
  std::vector<ShardRange> shards;  ///< By rank, for all processes: consecutive shards that cover all elements.
};

/// A parameter on one of its devices.
struct Replica {
  ReplicatedParameter* parameter;
  std::size_t index;  ///< 0 for the primary: the tensor that users and state dicts see.
  Tensor tensor;
  /// The elements of this replica that an optimizer updates and keeps state for: all elements, or, if the parameter is
  /// sharded, a shard that belongs to this replica alone among all processes.
  ShardRange shard;
};

/// The work that a device's backward should wait for before it goes on, so that gradients occupy less memory.
enum class Ahead : std::uint8_t {
  none,
  devices,  ///< Other devices, which have not computed the same gradients yet.
  sums,     ///< Sums of gradients that have all arrived, but whose all-reduce is not enqueued yet.
};

/// Follows each backward that reaches leaves that are replicas, and sums their gradients (as DDP's reducer does). A
/// model has one listener.
class GradientListener {
 public:
  virtual ~GradientListener() = default;
  /// Called before a backward, on its caller's thread. The backward will reach these leaves on each device in about
  /// this order, which is determined by the order of the forward operations. `keeps_graph`: gradients are recorded
  /// (create_graph). `meets`: the backward has operations in which processes wait for each other. Throws AutogradError
  /// if another backward that reaches some of these leaves is running.
  virtual void begin(std::span<const Replica* const> leaves, bool keeps_graph, bool meets) = 0;
  /// Called when the backward is done with a leaf: its gradient was accumulated on the current stream of the leaf's
  /// device, or there was none. Called once for each leaf that begin() named, on the thread that runs backward on the
  /// leaf's device.
  virtual void ready(const Replica& leaf) = 0;
  /// Returns the work that must be done before gradients on this device can be freed, or Ahead::none. The thread that
  /// runs backward on the device calls this, and then waits for that work. When the answer changes, the listener calls
  /// DeviceThread::notify().
  virtual Ahead is_ahead(const Device& device) = 0;
  /// Called after the backward, failed or not, on its caller's thread. Runs the hooks of the leaves, which see the
  /// whole gradients.
  virtual void end(bool failed) = 0;
  /// The weight of this process's loss if the loss was computed without a model. The weights of all processes add up to
  /// 1, or are 1 each if losses are parts of a sum.
  virtual double weight_without_pass() const noexcept = 0;
};

/// One object for a parameter and all its replicas. The `replica` of each replica's Meta refers to it.
///
/// During a backward that reaches the parameter, only accumulate() and grad_bucket_view() may be called. Functions that
/// change the gradient throw AutogradError during that time, and complete_gradient() does nothing.
class ReplicatedParameter {
 public:
  virtual ~ReplicatedParameter() = default;

  /// All replicas, the primary first. Empty once they are stale: newer replicas replaced them, or their model was
  /// destroyed.
  std::span<const Replica> replicas() const noexcept {
    return is_stale_ ? std::span<const Replica>() : std::span<const Replica>(replicas_);
  }
  bool is_stale() const noexcept { return is_stale_; }
  bool is_sharded() const noexcept { return is_sharded_; }
  /// Null if the parameter is not sharded, or is sharded only between the devices of this process. The functions
  /// complete_gradient(), all_gather() and all_gather_numbers() need other processes' shards, so all processes must
  /// call them in the same order.
  const std::shared_ptr<const ShardLayout>& shard_layout() const noexcept { return shard_layout_; }

  /// True if other processes have replicas too.
  virtual bool has_other_processes() const noexcept { return false; }
  /// The parameter's index among the parameters of its model.
  std::size_t entry() const noexcept { return entry_; }
  /// Logs calls on the model's parameters that all processes must make alike. Null for a single process.
  const std::shared_ptr<CallLog>& calls() const noexcept { return calls_; }

  /// The listener of the parameter's model; null once the replicas are stale.
  virtual std::shared_ptr<GradientListener> listener() const noexcept = 0;
  /// Returns the memory into which the next gradient can be written; an undefined Tensor if that gradient must be added
  /// to an earlier one.
  virtual Tensor grad_bucket_view(const Replica& replica) const = 0;
  /// Accumulates a gradient of the replica, on the current stream of its device.
  virtual void accumulate(const Replica& replica, const Tensor& gradient) = 0;

  /// Throws AutogradError, naming `op`, while a backward reaches the parameter's model.
  virtual void check_idle(const char* op) const = 0;
  /// Makes each replica's gradient the whole gradient: summed over all replicas, with all shards.
  virtual void complete_gradient() = 0;
  /// Replaces the gradient in all replicas; an undefined `gradient` drops it.
  virtual void set_gradient(const Replica& replica, const Tensor& gradient) = 0;

  /// Called before an optimizer uses all replicas: sums partial gradients, and copies gradients and values that were
  /// changed only in the primary to the other replicas.
  virtual void reconcile() = 0;
  /// Called after the gradient of each replica was changed in the replica's shard.
  virtual void gradient_changed() = 0;
  /// Called before replicas of the parameter's model are changed in their shards, after reconcile(). If they are
  /// sharded, all processes call it. all_gather() ends the update, or, if the update has failed, abandon_update(),
  /// which also makes the other processes fail if they do not have the same error.
  virtual void begin_update() {}
  virtual void abandon_update(bool /*fails_others*/) noexcept {}
  /// All-gathers the shards of these parameters, which belong to one model, on the current streams. Called after each
  /// replica was changed in its shard.
  virtual void all_gather(std::span<ReplicatedParameter* const> parameters) = 0;
  /// All-gathers float64 numbers, on the current streams. The tensors are contiguous, and have equally many numbers on
  /// each replica's device. Returns, for each device, the numbers of all processes' ranks, in the order of the ranks.
  virtual std::vector<Tensor> all_gather_numbers(std::span<const Tensor> numbers) = 0;

 protected:
  std::vector<Replica> replicas_;  // never reallocated: Meta points to the elements
  std::shared_ptr<const ShardLayout> shard_layout_;
  std::shared_ptr<CallLog> calls_;
  std::size_t entry_ = 0;
  bool is_sharded_ = false;
  bool is_stale_ = false;
};

}  // namespace lockstep::autograd
