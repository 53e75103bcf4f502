// A parameter that lives on several devices, as backward and optimizers see it. What stands behind it, and in which
// states its gradient can be, is the parallel layer's: parallel/bucketed_parameter.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <lockstep/runtime/world.h>
#include <lockstep/tensor/tensor.h>

#include "runtime/call_log.h"

namespace lockstep::autograd {

class ReplicatedParameter;

/// Elements of a tensor, in the order in which they lie.
struct Shard {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const noexcept { return end - begin; }
  bool operator==(const Shard&) const = default;
};

/// How a sharded parameter is divided between the devices of several processes.
struct Division {
  World world;
  std::size_t first_rank;     ///< Of this process's replicas.
  std::vector<Shard> shards;  ///< By rank, of all processes, one after the other: all elements, each once.
};

/// A parameter on one of its devices.
struct Replica {
  ReplicatedParameter* parameter;
  std::size_t index;  ///< 0 for the primary: the tensor that users and state dicts see.
  Tensor tensor;
  /// What an optimizer updates here, and keeps state of. All elements; or, where the parameter is sharded, those that
  /// no other replica of any process has.
  Shard shard;
};

/// Hears of each backward through leaves that are replicas. One for all parameters of a model.
class GradientListener {
 public:
  virtual ~GradientListener() = default;
  /// Before a backward, on its caller's thread: it will reach these leaves, in this order on each device as far as the
  /// order of the forward operations says. `keeps_graph`: gradients come with their graphs. Throws AutogradError where
  /// another backward reaches some.
  virtual void begin(std::span<const Replica* const> leaves, bool keeps_graph) = 0;
  /// The backward is done with a leaf: its gradient was accumulated on the current stream of the leaf's device, or
  /// there was none. Once for each leaf that begin() named, on the thread that runs backward on the leaf's device.
  virtual void ready(const Replica& leaf) = 0;
  /// After the backward, failed or not, on its caller's thread. Runs the hooks of the leaves: they see whole gradients.
  virtual void end(bool failed) = 0;
  /// By how much this process's loss counts where it went through no model: all processes' add up to 1, or each is a
  /// part of a sum.
  virtual double lone_share() const noexcept = 0;
};

/// One object for a parameter and all its replicas, behind the `replica` of each one's Meta.
///
/// Except for accumulate() and gradient_place(), nothing may be called while a backward reaches the parameter: what
/// changes the gradient throws AutogradError then, and complete_gradient() does nothing.
class ReplicatedParameter {
 public:
  virtual ~ReplicatedParameter() = default;

  /// The primary first. None once the replicas are stale: others have taken their place, or the model is gone.
  std::span<const Replica> replicas() const noexcept {
    return is_stale_ ? std::span<const Replica>() : std::span<const Replica>(replicas_);
  }
  bool is_stale() const noexcept { return is_stale_; }
  bool is_sharded() const noexcept { return is_sharded_; }
  /// Null where it is not sharded, or between the devices of this process alone. What needs other processes' shards all
  /// processes call, in the same order: complete_gradient(), all_gather(), all_gather_numbers().
  const std::shared_ptr<const Division>& division() const noexcept { return division_; }

  /// Whether other processes have replicas too.
  virtual bool has_other_processes() const noexcept { return false; }
  /// Its place among those of its model.
  std::size_t entry() const noexcept { return entry_; }
  /// For calls on the model's parameters that all processes have to make alike. Null for a process alone.
  const std::shared_ptr<CallLog>& calls() const noexcept { return calls_; }

  /// Null once the replicas are stale.
  virtual std::shared_ptr<GradientListener> listener() const noexcept = 0;
  /// Where the next gradient will be kept, if it can be written there; undefined if it has to be added to another one.
  virtual Tensor gradient_place(const Replica& replica) const = 0;
  /// Takes a gradient of the replica, on the current stream of its device.
  virtual void accumulate(const Replica& replica, const Tensor& gradient) = 0;

  /// Throws AutogradError, naming `op`, while a backward reaches the parameter's model.
  virtual void check_idle(const char* op) const = 0;
  /// Makes what each replica has the whole gradient.
  virtual void complete_gradient() = 0;
  /// That is the gradient from now on; undefined for none.
  virtual void set_gradient(const Replica& replica, const Tensor& gradient) = 0;

  /// Before an optimizer uses all replicas: sums what is not summed, and takes to the other replicas what was changed
  /// in the primary alone, gradient and value.
  virtual void reconcile() = 0;
  /// After each replica's gradient was changed in the replica's shard.
  virtual void gradient_changed() = 0;
  /// After each replica of these parameters, of one model, was changed in its shard: makes all of them whole, on the
  /// current streams.
  virtual void all_gather(std::span<ReplicatedParameter* const> parameters) = 0;
  /// As many float64 numbers of each replica's device, contiguous, become those of the ranks of all processes, one
  /// rank's after the other's: on each device, on the current streams.
  virtual std::vector<Tensor> all_gather_numbers(std::span<const Tensor> numbers) = 0;

 protected:
  std::vector<Replica> replicas_;  // each at its address for good: Meta points there
  std::shared_ptr<const Division> division_;
  std::shared_ptr<CallLog> calls_;
  std::size_t entry_ = 0;
  bool is_sharded_ = false;
  bool is_stale_ = false;
};

}  // namespace lockstep::autograd
