// A parameter and its replicas, each with a place for its gradient in a bucket: in which state the gradient is, and
// what every replica has of it.
//
// | state   | what each replica has                             | what grad() does first |
// |---------|---------------------------------------------------|------------------------|
// | none    | nothing                                           |                        |
// | partial | its part; or nothing; or an earlier sum, of which | sums                   |
// |         | its `counted` elements are its part               |                        |
// | summed  | the sum                                           |                        |
// | sharded | the sum in its shard; elsewhere anything          | all-gathers            |
// | primary | the primary alone what a user has set             |                        |
// | stale   | others have taken the replicas' place             |                        |
//
// The transitions, and who makes them (B begin of a backward, R the reduction, C complete_gradient or an all-gather, U
// a user or an optimizer, P reconcile, L a new layout of the buckets, X release):
//
// | from \ to | none | partial | summed | sharded | primary | stale |
// |-----------|------|---------|--------|---------|---------|-------|
// | none      | U    | B U     |        |         | U       | X     |
// | partial   | U R  | B L U   | R      | R       | U       | X     |
// | summed    | U    | B L U   | P C    | U       | U       | X     |
// | sharded   | U    | B L U   | C      | U       | U       | X     |
// | primary   | U    | B U     | P      |         | U       | X     |
//
// (A user who sets the gradient of another replica than the primary makes it partial: that replica's part is all.)
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

/// Whether the table above has that transition.
bool is_legal(GradientState from, GradientState to) noexcept;

/// What a model does with all of its parameters together: GradientBuckets.
class ReplicaOwner : public autograd::GradientListener {
 public:
  virtual void check_idle(const char* op) = 0;
  virtual void complete_gradient(std::size_t entry) = 0;
  virtual void reconcile(std::size_t entry) = 0;
  virtual void all_gather(std::span<autograd::ReplicatedParameter* const> parameters) = 0;
  virtual std::vector<Tensor> all_gather_numbers(std::span<const Tensor> numbers) = 0;
};

/// Not to be used by two threads at once, but for what backward calls: that is of one replica, each on one thread.
class BucketedParameter final : public autograd::ReplicatedParameter,
                                public std::enable_shared_from_this<BucketedParameter> {
 public:
  using Shard = autograd::Shard;
  using Replica = autograd::Replica;

  /// Number `entry` of those of `owner`. tensors[0] is the primary. All processes of the world have as many.
  BucketedParameter(std::span<const Tensor> tensors, std::weak_ptr<ReplicaOwner> owner, std::size_t entry,
                    World world = {}, std::shared_ptr<CallLog> calls = {});

  /// Makes this what the tensors' Meta point to.
  void attach();
  std::size_t size() const noexcept { return replicas_.size(); }
  const Tensor& tensor(std::size_t replica) const { return replicas_[replica].tensor; }
  autograd::Meta& meta(std::size_t replica) const { return *autograd::meta_of(tensor(replica)); }
  const Tensor& gradient(std::size_t replica) const { return meta(replica).grad; }
  GradientState state() const noexcept { return state_; }
  std::vector<Tensor> tensors() const;
  /// What each replica has in its shard: of the values, and of the gradient.
  ShardedTensor sharded_values() const;
  ShardedTensor sharded_gradient() const;

  // The place of each replica's gradient.
  /// Copies what the replica's gradient brings to the next sum, if there is one.
  void copy_gradient(std::size_t replica, const Tensor& to) const;
  /// Of all replicas: moves the gradients to where copy_gradient() has brought them. Where there are shards (by rank of
  /// all processes), each replica updates its own.
  void set_slots(std::vector<Tensor> memory, std::span<const Shard> shards);
  const Tensor& slot(std::size_t replica) const { return slots_[replica].memory; }
  /// What the replica's gradient brings to the next sum.
  Shard counted(std::size_t replica) const { return slots_[replica].counted; }
  bool fits_slot(std::size_t replica) const;  ///< Whether the tensor is still what the slot was made for.
  bool fits_slots() const;
  /// Throws InvalidArgument for one with a gradient that is sharded and was moved to another device.
  void check_sharded_in_place() const;

  // The sum.
  /// Whether it gets gradients: the primary says it for all.
  bool is_trained() const { return tensor(0).requires_grad(); }
  /// What is there will be added to, and summed.
  void begin_backward() { advance(GradientState::partial); }
  bool was_summed() const noexcept { return state_ == GradientState::summed || state_ == GradientState::sharded; }
  bool has_gradient() const;  ///< In any replica.
  /// Makes the slot what the replica adds to the sum, on the current stream.
  void prepare_sum(std::size_t replica) const;
  /// The slots hold the sum now; each of them its replica's shard of it, if the parameter is sharded.
  /// `used_somewhere`: some process has brought something to it, this one or another.
  void take_sum(bool used_somewhere = false);
  /// The slots hold the whole gradient.
  void take_gathered() { advance(GradientState::summed); }

  /// The gradient of a backward that keeps graphs: the primary's is the sum of the replicas', with its graph.
  void join_graphs();

  // Between backwards.
  /// The gradient, which is whole, as a tensor of its own; none is left.
  Tensor take_gradient();
  /// That is the gradient, with its graph if `keeps_graph`; undefined for none.
  void set_whole_gradient(const Tensor& gradient, bool keeps_graph);
  /// Whether the primary's gradient is in its slot, or can be copied there.
  bool primary_fits_slot() const;
  /// Copies the primary's gradient to the other replicas.
  void copy_gradient_from_primary();
  /// Copies the primary's value to each replica that has not changed as often.
  void copy_value_from_primary();
  /// Others take the replicas' place. A gradient that is not whole is dropped.
  void release() noexcept;

  /// What the parameter's gradient is: for captured steps.
  struct Gradient {
    GradientState state;
    std::vector<Tensor> slots, gradients;  // by replica
    std::vector<Shard> counted;
  };
  Gradient present() const;
  bool is_present(const Gradient& gradient) const noexcept;
  void restore(const Gradient& gradient);  ///< Of the present slots.

  // autograd::ReplicatedParameter
  bool has_other_processes() const noexcept override { return world_.size() > 1; }
  std::shared_ptr<autograd::GradientListener> listener() const noexcept override { return owner_.lock(); }
  Tensor gradient_place(const Replica& replica) const override;
  void accumulate(const Replica& replica, const Tensor& gradient) override;
  void check_idle(const char* op) const override;
  void complete_gradient() override;
  void set_gradient(const Replica& replica, const Tensor& gradient) override;
  void reconcile() override;
  void gradient_changed() override;
  void all_gather(std::span<autograd::ReplicatedParameter* const> parameters) override;
  std::vector<Tensor> all_gather_numbers(std::span<const Tensor> numbers) override;

 private:
  struct Slot {
    Tensor memory;
    Shard counted = {};
  };

  Shard all() const noexcept { return {0, replicas_[0].tensor.numel()}; }
  // What a replica keeps of a sum when more gradients come: what all processes keep together is the sum once.
  Shard kept(std::size_t replica) const;
  void advance(GradientState next);
  void drop_gradients();
  void set_grad(std::size_t replica, Tensor gradient) const { meta(replica).grad = std::move(gradient); }

  std::weak_ptr<ReplicaOwner> owner_;
  const World world_;
  GradientState state_ = GradientState::none;
  std::vector<Slot> slots_;    // by replica
  std::vector<Shard> shards_;  // by rank of all processes; none if it is not sharded
};

/// Zeroes what lies outside of `kept` in a contiguous tensor, on the current stream.
void zero_outside(const Tensor& tensor, autograd::Shard kept);

}  // namespace lockstep
