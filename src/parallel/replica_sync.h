// The state of ReplicaSync. Before a pass, replicate.cpp copies changes of the primary to the replicas. After it,
// pass_changes.cpp reconciles the changes that the pass made in the primary and in the replicas.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/core/lifetime.h>
#include <lockstep/parallel/replicate.h>

#include "tensor/tensor_impl.h"

namespace lockstep {

/// All parameters, buffers, settings and submodules of a module, in order.
struct ModuleState final : nn::Visitor {
  struct Item {
    nn::State* state;
    nn::BufferSync sync;  ///< For a parameter: `equal` if it is trained, else `primary`.
    bool is_parameter;

    bool is_trained() const noexcept { return is_parameter && sync == nn::BufferSync::equal; }
    /// True if this state and its replicas' copies are to keep equal version counts (in_lockstep.h).
    bool keeps_lockstep() const { return is_parameter || sync == nn::BufferSync::equal || state->requires_grad(); }
  };
  std::vector<Item> states;
  std::vector<std::pair<void*, std::size_t>> settings;
  std::vector<std::size_t> extents;
  std::vector<nn::ModuleBase*> modules;

  explicit ModuleState(nn::ModuleBase& module) { module.visit(nn::Path(), *this); }
  void module(const nn::Path&, nn::ModuleBase& module) override { modules.push_back(&module); }
  void parameter(const nn::Path&, nn::Parameter& value) override {
    states.push_back({&value, value.requires_grad() ? nn::BufferSync::equal : nn::BufferSync::primary, true});
  }
  void buffer(const nn::Path&, nn::Buffer& value) override { states.push_back({&value, value.sync(), false}); }
  void setting(const nn::Path&, void* value, std::size_t bytes) override { settings.emplace_back(value, bytes); }
  void extent(const nn::Path&, std::size_t extent) override { extents.push_back(extent); }
};

/// A tensor's storage and version.
struct StateVersion {
  const Storage* storage = nullptr;
  std::uint64_t version = 0;

  StateVersion() = default;
  explicit StateVersion(const nn::State& state) : storage(state.impl()->storage), version(state.version()) {}
  bool operator==(const StateVersion&) const = default;
};

struct ReplicaSync::Impl {
  struct Replica {
    ModuleState module_state;
    std::vector<StateVersion> primary_was = {}, was = {};  // each state when primary and replica were last made equal

    void are_equal(std::size_t k, const nn::State& primary) {
      primary_was[k] = StateVersion(primary);
      was[k] = StateVersion(*module_state.states[k].state);
    }
  };
  class StepState;
  std::vector<Replica> replicas;
  detail::Lifetime lifetime;
  bool is_set = false;
  std::vector<nn::BufferSync> syncs;              // of the states, in the last pass
  std::vector<std::vector<StateVersion>> before;  // each replica's states before that pass, the primary's first
  std::vector<Tensor> trained;  // the primary's states that get gradients, or got some since the replicas were made

  // Defined in replicate.cpp:
  void begin_pass(const ModuleState& primary);
  bool fits(const ModuleState& primary) const;
  bool is_current(const ModuleState& primary, const Replica& replica, std::size_t k) const;
  void update(const ModuleState& primary);
  void use_in_step(const ModuleState& primary) const;  // a step that may be captured

  // Defined in pass_changes.cpp:
  nn::State& state(const ModuleState& primary, std::size_t replica, std::size_t k) const {
    return *(replica == 0 ? primary : replicas[replica - 1].module_state).states[k].state;
  }
  bool has_changed(const ModuleState& primary, std::size_t replica, std::size_t k) const {
    return StateVersion(state(primary, replica, k)) != before[replica][k];
  }
};

}  // namespace lockstep
