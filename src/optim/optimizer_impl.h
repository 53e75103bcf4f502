// The data of an optimizer: its groups, and for each parameter the state in each of its replicas.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <lockstep/optim/optimizer.h>
#include <lockstep/optim/rule.h>
#include <lockstep/runtime/communicator.h>

#include "optim/replicas.h"

namespace lockstep::optim {

/// The state of a parameter in one of its replicas. The slots have the parameter's shape, or are flat if the replica
/// has only a shard.
struct ReplicaState {
  ShardRange shard;
  std::array<Tensor, kMaxSlots> slots;
};

struct ParameterState {
  std::int64_t step = 0;                                     ///< Number of steps taken.
  double scalar_state = 1;                                   ///< See Optimizer::scalar_state_name.
  std::array<std::int64_t, kMaxSlots> created_at_step = {};  ///< The step in which a slot was made; 0 for a loaded one.
  Shape sizes;                                               ///< The parameter's sizes, if there are replicas.
  std::shared_ptr<const autograd::ShardLayout> shard_layout;  ///< Set if several processes shard the parameter.
  std::vector<ReplicaState> replicas;                         ///< In the order of the parameter's replicas.

  /// The slot in the first replica; an undefined Tensor if there is none. All replicas have the same slots.
  Tensor any(std::size_t slot) const { return replicas.empty() ? Tensor() : replicas.front().slots[slot]; }
};

struct ParameterGroup {
  std::vector<Tensor> parameters;
  std::vector<ParameterState> states;
  std::size_t first = 0;  ///< The index of its first parameter among those of all groups.
};

struct Optimizer::Impl {
  const char* name;
  std::vector<ParameterGroup> groups = {};
  bool has_seen_gradient = false;  ///< True once a parameter had a gradient at a step() or zero_grad().
  bool is_compared = false;        ///< True once the processes of the models have compared settings.
  bool is_logged = false;          ///< True once the parameters and their step counts are in the call logs.
};

/// A request for a new state tensor.
struct SlotRequest {
  Tensor* into;
  const Tensor* like;  ///< The replica whose state this is.
  ShardRange shard;
  std::size_t slot;
  double initial;
};

/// Makes state tensors, filled with their initial values: one array for each device, dtype and slot, in the order of
/// the parameters in memory, so that the state of neighbouring parameters is contiguous too.
void make_slots(std::vector<SlotRequest> requests);

/// Copies elements `shard` of a slot to `to`, from the replicas of this process that have them.
void collect_slot(const Tensor& to, ShardRange shard, const ParameterState& from, std::size_t slot);

/// Joins slots whose shards are in several processes. get() is a collective operation: all processes must call it, for
/// the same slots in the same order.
class GatheredSlots {
 public:
  /// Returns the whole slot, flat, on the host; valid until the next get(). Throws CollectiveError.
  const Tensor& get(const ParameterState& state, std::size_t slot);

 private:
  std::shared_ptr<Transport> transport_;
  std::optional<Communicator> communicator_;  // connects the CPUs of the processes
  const ParameterState* state_ = nullptr;     // the argument of the last get()
  std::size_t slot_ = 0;
  Tensor whole_;
};

/// Makes each replica of a parameter have the state of its shard: makes new state, copies state to new replicas, or
/// changes its sharding.
class StateMove {
 public:
  /// Requests each used slot in each replica of the parameter, with the replica's shard and the right dtype.
  void add(const Tensor& parameter, ParameterState& state, std::span<const Slot> slots);
  /// Makes and copies the requested state, for all parameters of an optimizer. If it throws, the state may have moved
  /// to other memory, but its values are unchanged.
  void finish(std::span<ParameterGroup> groups);

 private:
  struct Moved {
    const Tensor* parameter;
    ParameterState* state;
    ParameterState becomes;
  };
  struct Copy {
    Tensor* to;
    ShardRange shard;
    const ParameterState* from;
    std::size_t slot;
    bool of_all_processes = false;  ///< true if other processes have shards of the slot
  };

  void move_to_host();
  void move_out_of_shared_arrays(std::span<ParameterGroup> groups);
  static const Tensor& layout_neighbor(const Moved& each, std::size_t k, std::size_t slot);

  std::vector<Moved> moved_;
  std::vector<SlotRequest> requests_;
  std::vector<Copy> copies_;
};

/// The slots of a parameter: those of its optimizer, and, for a 16-bit parameter, a master weight.
inline std::vector<Slot> slots_for(DType parameter, std::vector<Slot> slots) {
  if (size_of(parameter) != 2) return slots;
  slots.resize(kMaxSlots, {.name = "", .used = false});
  slots[kMasterSlot] = {.name = "master_weight"};
  return slots;
}

/// The dtype of a parameter's state, which is the dtype of its arithmetic.
inline DType state_dtype(DType dtype) { return dtype == kFloat64 ? kFloat64 : kFloat32; }

}  // namespace lockstep::optim
