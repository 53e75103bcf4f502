// What an optimizer holds: its groups, and for each parameter the state in each of its replicas.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <lockstep/optim/optimizer.h>
#include <lockstep/runtime/communicator.h>

#include "optim/batch.h"

namespace lockstep::optim {

/// The state of a parameter in one of its replicas: in the parameter's shape, or flat if it is of a shard.
struct ReplicaState {
  Shard shard;
  std::array<Tensor, kMaxSlots> slots;
};

struct ParameterState {
  std::int64_t step = 0;                               ///< Steps taken.
  double number = 1;                                   ///< See Optimizer::number_name.
  std::array<std::int64_t, kMaxSlots> born = {};       ///< The step that a slot was made in; 0 for a loaded one.
  Shape sizes;                                         ///< The parameter's, if there are replicas.
  std::shared_ptr<const autograd::Division> division;  ///< Of the replicas' shards among those of all processes, if so.
  std::vector<ReplicaState> replicas;                  ///< In the order of the parameter's replicas.

  /// A tensor of that slot; undefined if there is none. All replicas have the same slots.
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
  bool had_gradient = false;  ///< A parameter had one, at some step() or zero_grad().
  bool is_compared = false;   ///< Models of several processes have compared it.
  bool is_noted = false;      ///< They know its parameters and their steps.
};

/// State that is to be made.
struct SlotRequest {
  Tensor* into;
  const Tensor* like;  ///< The replica.
  Shard shard;
  std::size_t slot;
  double initial;
};

/// Makes state beside the parameters, filled with its initial value: one array for each device, dtype and slot, laid
/// out as the parameters are, so that what lies together there lies together here.
void make_slots(std::vector<SlotRequest> requests);

/// to = those elements of a slot, from whichever replicas have them, of this process.
void collect_slot(const Tensor& to, Shard shard, const ParameterState& from, std::size_t slot);

/// Brings slots together that several processes have shards of. All of them call it, for the same slots in the same
/// order.
class GatheredSlots {
 public:
  /// The whole slot, flat, on the host. Throws CollectiveError.
  const Tensor& get(const ParameterState& state, std::size_t slot);

 private:
  std::shared_ptr<Transport> transport_;
  std::optional<Communicator> communicator_;  // of the hosts
  const ParameterState* state_ = nullptr;     // of the last one
  std::size_t slot_ = 0;
  Tensor whole_;
};

/// Moves state to where its parameters are: makes it anew, copies it to a replica made since, or shards it otherwise.
class StateMove {
 public:
  /// Asks for each used slot in each replica of the parameter, in the replica's shard and of the right dtype.
  void add(const Tensor& parameter, ParameterState& state, std::span<const Slot> slots);
  /// Does it, among all parameters of an optimizer. Where it throws, nothing has changed but where some
  /// state is.
  void finish(std::span<ParameterGroup> groups);

 private:
  struct Moved {
    const Tensor* parameter;
    ParameterState* state;
    ParameterState becomes;
  };
  struct Copy {
    Tensor* to;
    Shard shard;
    const ParameterState* from;
    std::size_t slot;
    bool of_all_processes = false;  ///< It wants other processes' shards.
  };

  void move_to_host();
  void leave_arrays(std::span<ParameterGroup> groups);
  static const Tensor& beside(const Moved& each, std::size_t k, std::size_t slot);

  std::vector<Moved> moved_;
  std::vector<SlotRequest> requests_;
  std::vector<Copy> copies_;
};

/// What a parameter has slots for: those of its optimizer, and a 16-bit one a master weight.
inline std::vector<Slot> slots_for(DType parameter, std::vector<Slot> slots) {
  if (size_of(parameter) != 2) return slots;
  slots.resize(kMaxSlots, {.name = "", .used = false});
  slots[kMasterSlot] = {.name = "master_weight"};
  return slots;
}

/// The dtype of state for a parameter: the one that its arithmetic happens in.
inline DType state_dtype(DType dtype) { return dtype == kFloat64 ? kFloat64 : kFloat32; }

}  // namespace lockstep::optim
