#include <lockstep/parallel/replicate.h>

#include <algorithm>
#include <concepts>
#include <cstring>
#include <typeinfo>

#include <lockstep/autograd/grad_mode.h>

#include "autograd/meta.h"
#include "core/context.h"
#include "core/text.h"
#include "nn/each_state.h"
#include "nn/step_modules.h"
#include "parallel/in_lockstep.h"
#include "parallel/replica_sync.h"
#include "tensor/copy.h"
#include "tensor/host_state.h"

namespace lockstep {
namespace {

template <class S>
void check_shaped(const char* op, const nn::Path& path, const S& value) {
  if (!value.defined())
    throw InvalidArgument(text("[", op, "] expected ", nn::kind_name(value), " \"", path.str(),
                               "\" to have a shape, got a lazy one: run one batch through the module first"));
}

}  // namespace

void ReplicaSync::Impl::begin_pass(const ModuleState& primary) {
  syncs.clear();
  before.assign(replicas.size() + 1, {});
  for (const auto& [state, sync, is_parameter] : primary.states) {
    syncs.push_back(sync);
    before[0].emplace_back(*state);
  }
  for (std::size_t r = 0; r < replicas.size(); ++r)
    for (const ModuleState::Item& item : replicas[r].module_state.states) before[r + 1].emplace_back(*item.state);
}

// True if a replica's state still equals the primary's. Both must have the storages that they had when they were last
// made equal. A state that was trained in the last pass, or that is a BufferSync::equal buffer, may have changed since
// then, if both have changed equally often. Any other state must not have changed, because each replica may have
// changed it in another way.
bool ReplicaSync::Impl::is_current(const ModuleState& primary, const Replica& replica, std::size_t k) const {
  const ModuleState::Item& item = primary.states[k];
  const nn::State& own = *replica.module_state.states[k].state;
  const StateVersion now(*item.state), its(own), &primary_was = replica.primary_was[k], &was = replica.was[k];
  if (now.storage != primary_was.storage || its.storage != was.storage) return false;
  if (syncs[k] != nn::BufferSync::equal && (now != primary_was || its != was)) return false;
  return item.is_parameter || item.sync == nn::BufferSync::equal ? are_in_lockstep(*item.state, own) : true;
}

void ReplicaSync::Impl::update(const ModuleState& primary) {
  const NoGrad guard;
  for (Replica& replica : replicas) {
    const ModuleState& own = replica.module_state;
    for (std::size_t k = 0; k < primary.states.size(); ++k) {
      const ModuleState::Item& item = primary.states[k];
      const nn::State& source = *item.state;
      nn::State& target = *own.states[k].state;
      if (target.requires_grad() != source.requires_grad()) target.requires_grad_(source.requires_grad());
      if (!is_current(primary, replica, k)) {
        if (item.keeps_lockstep()) {
          bring_in_lockstep(source, target);
        } else {
          copy_values(target, source);
          bump_version(target);
        }
      } else if (item.sync == syncs[k]) {
        continue;
      }
      replica.are_equal(k, source);
    }
    for (std::size_t k = 0; k < primary.settings.size(); ++k)
      std::memcpy(own.settings[k].first, primary.settings[k].first, primary.settings[k].second);
    for (std::size_t k = 0; k < primary.modules.size(); ++k) {
      own.modules[k]->set_mode(primary.modules[k]->is_training());
      own.modules[k]->take_forward_hooks(*primary.modules[k]);
    }
  }
}

bool ReplicaSync::Impl::fits(const ModuleState& primary) const {
  const ModuleState& replica = replicas.empty() ? primary : replicas.front().module_state;
  bool same =
      primary.states.size() == trained.size() && primary.states.size() == replica.states.size() &&
      primary.settings.size() == replica.settings.size() && primary.extents == replica.extents &&
      std::ranges::equal(primary.modules, replica.modules,
                         [](const nn::ModuleBase* a, const nn::ModuleBase* b) { return typeid(*a) == typeid(*b); });
  for (std::size_t k = 0; same && k < primary.states.size(); ++k) {
    const nn::State &a = *primary.states[k].state, &b = *replica.states[k].state;
    same = a.sizes() == b.sizes() && a.dtype() == b.dtype();
    // False if a parameter was replaced by another one, since the buckets would not sum the new parameter's gradients.
    same = same && (!a.requires_grad() || !trained[k].defined() || a.is_same(trained[k]));
  }
  return same;
}

void detail::check_replicable(nn::ModuleBase& module, std::span<const Device> devices) {
  if (devices.empty()) throw InvalidArgument("[replicate] expected at least one device, got none");
  for (const Device& device : devices) device_state(device);
  nn::for_each_state(module, [](const nn::Path& path, auto& value) { check_shaped("replicate", path, value); });
}

// Detects, before a captured step is replayed, that a user has changed parameters or buffers between steps. The copies
// of a trained state must be in lockstep as they were before the captured step. Every other state must have changed as
// often since the previous step as it had when the step was captured.
class ReplicaSync::Impl::StepState final : public HostStatePart {
 public:
  StepState(std::weak_ptr<const void> sync, const Impl& impl, const ModuleState& primary) : sync_(std::move(sync)) {
    for (std::size_t k = 0; k < primary.states.size(); ++k) {
      Copies& copies = states_.emplace_back();
      copies.are_equal = primary.states[k].sync == nn::BufferSync::equal;
      copies.tensors.push_back(*primary.states[k].state);
      for (const Replica& replica : impl.replicas) copies.tensors.push_back(*replica.module_state.states[k].state);
    }
    after_step();
  }

  bool is_gone() const override { return sync_.expired(); }
  void begin() override { found_ = changes(); }
  void end(const ReplayValues&) override {
    for (Copies& copies : states_) copies.changed_in_captured = changed_in_step(copies);
  }
  const char* find_mismatch() override {
    if (sync_.expired()) return "the replicas of a model";
    if (changes() != found_) return "a parameter or a buffer, by hand";
    // A step with a smaller batch leaves the buffers of replicas without rows unchanged. After it, the buffers are not
    // in the state that the captured step expects.
    const auto differs = [](const Copies& copies) {
      return !copies.are_equal && copies.changed_in_last != copies.changed_in_captured;
    };
    return std::ranges::any_of(states_, differs) ? "the set of replicas that change a buffer" : nullptr;
  }
  void after_step() override {
    for (Copies& copies : states_) {
      copies.changed_in_last = changed_in_step(copies);
      copies.versions.clear();
      for (const Tensor& tensor : copies.tensors) copies.versions.push_back(tensor.version());
    }
  }

 private:
  struct Copies {
    bool are_equal = false;
    std::vector<Tensor> tensors;  // the primary first
    std::vector<std::uint64_t> versions;
    std::vector<bool> changed_in_last, changed_in_captured;  // replicas that the step changed
  };

  // True for each copy that changed since the last step.
  static std::vector<bool> changed_in_step(const Copies& copies) {
    std::vector<bool> changed(copies.tensors.size());
    for (std::size_t r = 0; r < copies.versions.size(); ++r)
      changed[r] = copies.tensors[r].version() != copies.versions[r];
    return changed;
  }

  std::vector<std::uint64_t> changes() const {
    std::vector<std::uint64_t> all;
    for (const Copies& copies : states_) {
      const std::uint64_t of_primary = copies.tensors[0].version();
      for (std::size_t r = 0; r < copies.tensors.size(); ++r)
        all.push_back(copies.tensors[r].version() - (copies.are_equal ? of_primary : copies.versions[r]));
    }
    return all;
  }

  const std::weak_ptr<const void> sync_;
  std::vector<Copies> states_;
  std::vector<std::uint64_t> found_;
};

void ReplicaSync::Impl::use_in_step(const ModuleState& primary) const {
  if (HostState* const parts = context().host_state) parts->add<StepState>(this, lifetime.watch(), *this, primary);
}

ReplicaSync::ReplicaSync() : impl_(std::make_unique<Impl>()) {}
ReplicaSync::~ReplicaSync() = default;
ReplicaSync::ReplicaSync(ReplicaSync&&) noexcept = default;
ReplicaSync& ReplicaSync::operator=(ReplicaSync&&) noexcept = default;

void ReplicaSync::check_placement(nn::ModuleBase& module, Device device) {
  nn::use_in_step(module);
  nn::for_each_state(module, [&]<class S>(const nn::Path& path, S& value) {
    check_shaped("DataParallel", path, value);
    if (value.device() != device)
      throw DeviceMismatch(text("[DataParallel] expected ", nn::kind_name(value), " \"", path.str(), "\" on ", device,
                                ", got it on ", value.device()));
    if constexpr (std::same_as<S, nn::Buffer>)
      if (value.sync() == nn::BufferSync::mean && !is_floating(value.dtype()))
        throw DTypeError(text("[DataParallel] expected a floating dtype for buffer \"", path.str(),
                              "\", which is averaged over the replicas (BufferSync::mean), got ", value.dtype(),
                              ": use BufferSync::primary or BufferSync::equal"));
  });
}

void ReplicaSync::reset(nn::ModuleBase& primary, std::span<nn::ModuleBase* const> replicas) {
  Impl& impl = *impl_;
  impl.replicas.clear();
  const ModuleState own(primary);
  impl.trained.clear();
  impl.is_set = true;
  for (const ModuleState::Item& item : own.states)
    impl.trained.push_back(item.state->requires_grad() ? *item.state : Tensor());
  for (nn::ModuleBase* module : replicas) {
    Impl::Replica& replica = impl.replicas.emplace_back(Impl::Replica{ModuleState(*module)});
    for (std::size_t k = 0; k < own.states.size(); ++k)
      if (own.states[k].keeps_lockstep())
        begin_in_lockstep(*own.states[k].state, *replica.module_state.states[k].state);
    for (const ModuleState::Item& item : own.states) replica.primary_was.emplace_back(*item.state);
    for (const ModuleState::Item& item : replica.module_state.states) replica.was.emplace_back(*item.state);
  }
  impl.begin_pass(own);
}

ReplicaFit ReplicaSync::update(nn::ModuleBase& primary) {
  const ModuleState now(primary);
  if (!impl_->is_set || !impl_->fits(now)) return ReplicaFit::none;
  impl_->use_in_step(now);
  impl_->update(now);
  impl_->begin_pass(now);
  ReplicaFit fit = ReplicaFit::all;
  for (std::size_t k = 0; k < now.states.size(); ++k) {
    const nn::State& state = *now.states[k].state;
    if (!state.requires_grad()) continue;
    impl_->trained[k] = state;
    if (!autograd::replica_of(state)) fit = ReplicaFit::all_but_gradients;
  }
  return fit;
}

void ReplicaSync::fail_pass() noexcept {
  if (!impl_) return;
  for (std::size_t r = 0; r < impl_->replicas.size(); ++r) {
    Impl::Replica& replica = impl_->replicas[r];
    for (std::size_t k = 0; k < replica.was.size(); ++k) {
      const nn::State& state = *replica.module_state.states[k].state;
      if (!state.requires_grad() || StateVersion(state) != impl_->before[r + 1][k]) replica.was[k] = StateVersion();
    }
  }
}

}  // namespace lockstep
