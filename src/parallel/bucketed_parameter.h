// BucketedParameter: a parameter and its replicas. Each of them has a slot: the memory of its gradient, a view of a
// bucket. The state of the gradient says what each replica's gradient (its grad()) is:
//
// | state   | contents of each replica's gradient                    | what grad() does first |
// |---------|--------------------------------------------------------|------------------------|
// | none    | nothing                                                |                        |
// | partial | its part of the next sum, or nothing                   | sums                   |
// | summed  | the sum                                                |                        |
// | sharded | the sum in its shard; other elements are unspecified   | all-gathers            |
// | primary | a user's gradient, in the primary (replica 0) alone    |                        |
// | stale   | newer replicas have replaced these                     |                        |
//
// If a backward adds to a gradient that is a sum, the bucket sets this earlier sum aside (has_earlier_sum()), and adds
// it to the next sum.
//
// Transitions, and the events that cause them: B a backward begins; R a bucket is reduced; C complete_gradient() or an
// all-gather; U a user or an optimizer sets or drops the gradient; P reconcile(), which copies the primary's gradient
// to the replicas; L the buckets are laid out anew; X release().
//
// | from \ to | none | partial | summed | sharded | primary | stale |
// |-----------|------|---------|--------|---------|---------|-------|
// | none      | U    | B U     |        |         | U       | X     |
// | partial   | U R  | B L U   | R      | R       | U       | X     |
// | summed    | U    | B L U   | P C    | U       | U       | X     |
// | sharded   | U    | B L U   | C      | U       | U       | X     |
// | primary   | U    | B U     | P      |         | U       | X     |
//
// (If a user sets the gradient of a replica other than the primary, the state becomes partial, and only that replica
// has a part.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "autograd/meta.h"
#include "autograd/replicated_parameter.h"
#include "parallel/all_gather_shards.h"

namespace lockstep {

enum class GradientState : std::uint8_t { none, partial, summed, sharded, primary, stale };

/// True if the table above has that transition.
bool is_legal(GradientState from, GradientState to) noexcept;

/// Operations on all parameters of a model together, implemented by GradientBuckets.
class ReplicaOwner : public autograd::GradientListener {
 public:
  virtual void check_idle(const char* op) = 0;
  virtual void complete_gradient(std::size_t entry) = 0;
  virtual void reconcile(std::size_t entry) = 0;
  /// The parameter has no gradient any more.
  virtual void gradient_dropped(std::size_t entry) = 0;
  virtual void begin_update() = 0;
  virtual void abandon_update(bool fails_others) noexcept = 0;
  virtual void all_gather(std::span<autograd::ReplicatedParameter* const> parameters) = 0;
  virtual std::vector<Tensor> all_gather_numbers(std::span<const Tensor> numbers) = 0;
};

/// Not thread-safe. Exception: backward calls functions for several replicas at once, each on its replica's thread.
class BucketedParameter final : public autograd::ReplicatedParameter,
                                public std::enable_shared_from_this<BucketedParameter> {
 public:
  using ShardRange = autograd::ShardRange;
  using Replica = autograd::Replica;

  /// Parameter number `entry` of `owner`. tensors[0] is the primary. All processes of the world have equally many
  /// replicas.
  BucketedParameter(std::span<const Tensor> tensors, std::weak_ptr<ReplicaOwner> owner, std::size_t entry,
                    World world = {}, std::shared_ptr<CallLog> calls = {});

  /// Points the tensors' Meta to this object.
  void attach();
  std::size_t size() const noexcept { return replicas_.size(); }
  const Tensor& tensor(std::size_t replica) const { return replicas_[replica].tensor; }
  autograd::Meta& meta(std::size_t replica) const { return *autograd::meta_of(tensor(replica)); }
  const Tensor& gradient(std::size_t replica) const { return meta(replica).grad; }
  GradientState state() const noexcept { return state_; }
  std::vector<Tensor> tensors() const;
  /// Each replica's shard of the values, and of the gradient.
  ShardedTensor sharded_values() const;
  ShardedTensor sharded_gradient() const;

  // Slots.
  /// If the replica has a gradient, copies it to `to`. If the gradient is a sharded sum, copies only the replica's
  /// shard and sets the other elements to 0.
  void copy_gradient(std::size_t replica, const Tensor& to) const;
  /// Moves the gradients of all replicas to `memory`, which copy_gradient() has filled before. If there are shards (by
  /// rank of all processes), each replica updates its own shard.
  void set_slots(std::vector<Tensor> memory, std::span<const ShardRange> shards);
  const Tensor& slot(std::size_t replica) const { return slots_[replica]; }
  bool fits_slot(std::size_t replica) const;  ///< False if device, dtype or shape changed since set_slots().
  bool fits_slots() const;
  /// Throws InvalidArgument if the parameter has a sharded gradient and was moved to another device.
  void check_sharded_in_place() const;

  // The sum.
  /// True if the parameter gets gradients: the primary's flag counts for all replicas.
  bool is_trained() const { return tensor(0).requires_grad(); }
  /// Called before a backward that reaches the parameter. The gradient is not a sum: keep_earlier_sum() was called
  /// first.
  void begin_backward() { advance(GradientState::partial); }
  bool was_summed() const noexcept { return state_ == GradientState::summed || state_ == GradientState::sharded; }
  /// Called after the bucket has copied the present gradient, a sum, to its earlier sum: drops the gradient.
  void keep_earlier_sum();
  bool has_earlier_sum() const noexcept { return has_earlier_sum_; }
  bool has_gradient() const;  ///< True if any replica has one, or the bucket keeps an earlier sum.
  /// Called before the bucket is reduced: sets the slot to the replica's part of the sum, on the current stream.
  void prepare_sum(std::size_t replica) const;
  /// Called when the slots hold the sum, or, if the parameter is sharded, when each slot holds its replica's shard of
  /// the sum. `used_somewhere`: some process (maybe another one) has contributed.
  void take_sum(bool used_somewhere = false);
  /// Called after an all-gather, when the slots hold the whole gradient.
  void take_gathered() { advance(GradientState::summed); }

  /// For a backward that keeps graphs: sets the primary's gradient to the sum of the replicas' gradients, with its
  /// graph.
  void join_graphs();

  // Between backwards.
  /// Removes the gradient, which must be whole, and returns it as a tensor with its own memory.
  Tensor take_gradient();
  /// Sets the gradient, with its graph if `keeps_graph`; an undefined Tensor removes the gradient.
  void set_whole_gradient(const Tensor& gradient, bool keeps_graph);
  /// True if the primary's gradient is in its slot, or can be copied there.
  bool primary_fits_slot() const;
  /// Copies the primary's gradient to the other replicas.
  void copy_gradient_from_primary();
  /// Copies the primary's value to each replica that is not in lockstep with it.
  void copy_value_from_primary();
  /// Makes the replicas stale. Drops a gradient that is not whole.
  void release() noexcept;

  /// A snapshot of the parameter's gradient, for captured steps.
  struct Gradient {
    GradientState state;
    bool has_earlier_sum;
    std::vector<Tensor> slots, gradients;  // by replica
  };
  Gradient present() const;
  bool is_present(const Gradient& gradient) const noexcept;
  void restore(const Gradient& gradient);  ///< The snapshot's slots must be the present ones.

  // autograd::ReplicatedParameter
  bool has_other_processes() const noexcept override { return world_.size() > 1; }
  std::shared_ptr<autograd::GradientListener> listener() const noexcept override { return owner_.lock(); }
  Tensor grad_bucket_view(const Replica& replica) const override;
  void accumulate(const Replica& replica, const Tensor& gradient) override;
  void check_idle(const char* op) const override;
  void complete_gradient() override;
  void set_gradient(const Replica& replica, const Tensor& gradient) override;
  void reconcile() override;
  void gradient_changed() override;
  void begin_update() override;
  void abandon_update(bool fails_others) noexcept override;
  void all_gather(std::span<autograd::ReplicatedParameter* const> parameters) override;
  std::vector<Tensor> all_gather_numbers(std::span<const Tensor> numbers) override;

 private:
  ShardRange all() const noexcept { return {0, replicas_[0].tensor.numel()}; }
  void advance(GradientState next);
  void drop_gradients();
  void set_grad(std::size_t replica, Tensor gradient) const { meta(replica).grad = std::move(gradient); }

  std::weak_ptr<ReplicaOwner> owner_;
  const World world_;
  GradientState state_ = GradientState::none;
  bool has_earlier_sum_ = false;
  std::vector<Tensor> slots_;       // by replica
  std::vector<ShardRange> shards_;  // by rank of all processes; empty if not sharded
};

/// Zeroes the elements of a contiguous tensor outside of `part`, on the current stream.
void zero_outside(const Tensor& tensor, autograd::ShardRange part);

}  // namespace lockstep
