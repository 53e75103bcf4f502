#include <lockstep/parallel/replicate.h>

#include <algorithm>
#include <cstring>
#include <typeinfo>

#include <lockstep/autograd/grad_mode.h>

#include "core/text.h"
#include "parallel/in_lockstep.h"
#include "parallel/replica_group_impl.h"
#include "tensor/copy.h"
#include "tensor/tensor_impl.h"

namespace lockstep {
namespace {

// All of a module's state, in order.
struct Inventory final : nn::Visitor {
  struct Item {
    nn::State* state;
    nn::BufferSync sync;
  };
  std::vector<Item> states;
  std::vector<std::pair<void*, std::size_t>> settings;
  std::vector<std::size_t> extents;
  std::vector<nn::ModuleBase*> modules;

  explicit Inventory(nn::ModuleBase& module) { module.visit(nn::Path(), *this); }
  void module(const nn::Path&, nn::ModuleBase& module) override { modules.push_back(&module); }
  void parameter(const nn::Path&, nn::Parameter& value) override {
    // An optimizer changes all replicas of what it trains.
    states.push_back({&value, value.requires_grad() ? nn::BufferSync::equal : nn::BufferSync::primary});
  }
  void buffer(const nn::Path&, nn::Buffer& value) override { states.push_back({&value, value.sync()}); }
  void setting(const nn::Path&, void* value, std::size_t bytes) override { settings.emplace_back(value, bytes); }
  void extent(const nn::Path&, std::size_t extent) override { extents.push_back(extent); }
};

// A tensor's memory and how often it has changed.
struct Seen {
  const Storage* storage = nullptr;
  std::uint64_t version = 0;
  Seen() = default;
  explicit Seen(const nn::State& state) : storage(state.impl()->storage), version(state.version()) {}
};

// Whether a replica still is what its primary is: both are where they were when they were the same, and have changed
// together where they do, or not at all.
bool is_current(const Seen& primary_was, const Inventory::Item& primary, const Seen& replica_was,
                const nn::State& replica) {
  const Seen now(*primary.state), its(replica);
  if (now.storage != primary_was.storage || its.storage != replica_was.storage) return false;
  return primary.sync == nn::BufferSync::equal
             ? are_in_lockstep(*primary.state, replica)
             : now.version == primary_was.version && its.version == replica_was.version;
}

void check_shaped(const char* op, const char* kind, const nn::Path& path, const nn::State& value) {
  if (!value.defined())
    throw InvalidArgument(text("[", op, "] expected ", kind, " \"", path.str(),
                               "\" to have a shape, got a lazy one: run one batch through the module first"));
}

struct Shaped final : nn::Visitor {
  void parameter(const nn::Path& path, nn::Parameter& value) override {
    check_shaped("replicate", "parameter", path, value);
  }
  void buffer(const nn::Path& path, nn::Buffer& value) override { check_shaped("replicate", "buffer", path, value); }
};

class Placement final : public nn::Visitor {
 public:
  explicit Placement(Device device) : device_(device) {}
  void parameter(const nn::Path& path, nn::Parameter& value) override { check("parameter", path, value); }
  void buffer(const nn::Path& path, nn::Buffer& value) override {
    check("buffer", path, value);
    if (value.sync() == nn::BufferSync::mean && !is_floating(value.dtype()))
      throw DTypeError(text("[DataParallel] expected buffer \"", path.str(),
                            "\", of which replicas take the mean, of a floating dtype, got ", value.dtype()));
  }

 private:
  void check(const char* kind, const nn::Path& path, const nn::State& value) const {
    check_shaped("DataParallel", kind, path, value);
    if (value.device() != device_)
      throw DeviceMismatch(
          text("[DataParallel] expected ", kind, " \"", path.str(), "\" on ", device_, ", got it on ", value.device()));
  }
  Device device_;
};

}  // namespace

struct ReplicaSync::Impl {
  struct Replica {
    Inventory inventory;
    std::vector<Seen> primary_was, was;  // each state when they were last made equal

    void are_equal(std::size_t k, const nn::State& primary) {
      primary_was[k] = Seen(primary);
      was[k] = Seen(*inventory.states[k].state);
    }
  };
  std::vector<Replica> replicas;
  bool is_set = false;
  bool has_means = false;               // among the buffers
  std::vector<std::uint64_t> versions;  // of the primary's states, before the pass
  std::vector<Tensor> trained;          // the primary's states for which the replicas were made, if they get gradients

  void begin_pass(const Inventory& primary) {
    versions.clear();
    for (const auto& [state, sync] : primary.states) versions.push_back(state->version());
  }

  void update(const Inventory& primary) {
    const NoGrad guard;
    for (Replica& replica : replicas) {
      const Inventory& own = replica.inventory;
      for (std::size_t k = 0; k < primary.states.size(); ++k) {
        const nn::State& source = *primary.states[k].state;
        nn::State& target = *own.states[k].state;
        if (is_current(replica.primary_was[k], primary.states[k], replica.was[k], target)) continue;
        if (primary.states[k].sync == nn::BufferSync::equal || source.requires_grad()) {
          bring_in_lockstep(source, target);
        } else {
          copy_values(target, source);
          bump_version(target);
        }
        replica.are_equal(k, source);
      }
      for (std::size_t k = 0; k < primary.settings.size(); ++k)
        std::memcpy(own.settings[k].first, primary.settings[k].first, primary.settings[k].second);
      for (std::size_t k = 0; k < primary.modules.size(); ++k)
        own.modules[k]->set_mode(primary.modules[k]->is_training());
    }
  }

  // Of the buffers that become means, those of one dtype that the pass has changed.
  std::vector<std::size_t> changed_means(const Inventory& primary, DType dtype) const {
    std::vector<std::size_t> found;
    for (std::size_t k = 0; k < primary.states.size(); ++k) {
      const auto& [state, sync] = primary.states[k];
      if (sync == nn::BufferSync::mean && state->dtype() == dtype && state->version() != versions[k])
        found.push_back(k);
    }
    return found;
  }

  // All of them at once, through one array on each device.
  void average(const Inventory& primary, const std::vector<std::size_t>& which, std::size_t ran, std::size_t all,
               ReplicaGroup& group) {
    const auto state = [&](std::size_t replica, std::size_t k) -> nn::State& {
      return *(replica == 0 ? primary : replicas[replica - 1].inventory).states[k].state;
    };
    std::int64_t elements = 0;
    for (const std::size_t k : which) elements += state(0, k).numel();
    std::vector<Tensor> flats;
    std::vector<Stream> streams;
    const auto for_each = [&](std::size_t replica, const auto& visit) {
      std::int64_t at = 0;
      for (const std::size_t k : which) {
        nn::State& own = state(replica, k);
        visit(own, make_view(flats[replica], own.sizes(), contiguous_strides(own.sizes()), at));
        at += own.numel();
      }
    };
    for (std::size_t i = 0; i < ran; ++i) {
      const nn::State& first = state(i, which[0]);
      flats.push_back(make_tensor(device_state(first.device()), {elements}, first.dtype()));
      streams.push_back(current_stream(first.device()));
      for_each(i, [](const nn::State& own, const Tensor& place) { copy_values(place, own); });
    }
    group.impl().mean(flats, streams, all);
    for (std::size_t i = 0; i < ran; ++i)
      for_each(i, [](nn::State& own, const Tensor& place) {
        copy_values(own, place);
        bump_version(own);
      });
    for (std::size_t i = 1; i < ran; ++i)
      for (const std::size_t k : which) replicas[i - 1].are_equal(k, state(0, k));
  }

  bool fits(const Inventory& primary) const {
    const Inventory& replica = replicas.empty() ? primary : replicas.front().inventory;
    bool same =
        primary.states.size() == trained.size() && primary.states.size() == replica.states.size() &&
        primary.settings.size() == replica.settings.size() && primary.extents == replica.extents &&
        std::ranges::equal(primary.modules, replica.modules,
                           [](const nn::ModuleBase* a, const nn::ModuleBase* b) { return typeid(*a) == typeid(*b); });
    for (std::size_t k = 0; same && k < primary.states.size(); ++k) {
      const nn::State &a = *primary.states[k].state, &b = *replica.states[k].state;
      same = a.sizes() == b.sizes() && a.dtype() == b.dtype() && a.requires_grad() == b.requires_grad();
      // Gradients of another parameter in its place would not be summed.
      same = same && (!a.requires_grad() || a.is_same(trained[k]));
    }
    return same;
  }
};

void detail::check_replicable(nn::ModuleBase& module, std::span<const Device> devices) {
  if (devices.empty()) throw InvalidArgument("[replicate] expected at least one device, got none");
  for (const Device& device : devices) device_state(device);
  Shaped visitor;
  module.visit(nn::Path(), visitor);
}

ReplicaSync::ReplicaSync() : impl_(std::make_unique<Impl>()) {}
ReplicaSync::~ReplicaSync() = default;
ReplicaSync::ReplicaSync(ReplicaSync&&) noexcept = default;
ReplicaSync& ReplicaSync::operator=(ReplicaSync&&) noexcept = default;

void ReplicaSync::check_placement(nn::ModuleBase& module, Device device) {
  Placement visitor(device);
  module.visit(nn::Path(), visitor);
}

void ReplicaSync::reset(nn::ModuleBase& primary, std::span<nn::ModuleBase* const> replicas) {
  impl_->replicas.clear();
  const Inventory inventory(primary);
  impl_->trained.clear();
  impl_->is_set = true;
  impl_->has_means = std::ranges::any_of(inventory.states,
                                         [](const Inventory::Item& item) { return item.sync == nn::BufferSync::mean; });
  impl_->begin_pass(inventory);
  for (const auto& [state, sync] : inventory.states)
    impl_->trained.push_back(state->requires_grad() ? *state : Tensor());
  for (nn::ModuleBase* module : replicas) {
    Impl::Replica& replica = impl_->replicas.emplace_back(Impl::Replica{Inventory(*module), {}, {}});
    for (std::size_t k = 0; k < inventory.states.size(); ++k)
      if (inventory.states[k].sync == nn::BufferSync::equal || inventory.states[k].state->requires_grad())
        begin_in_lockstep(*inventory.states[k].state, *replica.inventory.states[k].state);
    for (const auto& [state, sync] : inventory.states) replica.primary_was.emplace_back(*state);
    for (const auto& [state, sync] : replica.inventory.states) replica.was.emplace_back(*state);
  }
}

bool ReplicaSync::update(nn::ModuleBase& primary) {
  const Inventory now(primary);
  if (!impl_->is_set || !impl_->fits(now)) return false;
  impl_->update(now);
  impl_->begin_pass(now);
  return true;
}

void ReplicaSync::end_pass(nn::ModuleBase& primary, std::size_t ran, ReplicaGroup& group, std::size_t all) {
  if (all == 0) all = ran;
  if (all < 2 || !impl_->has_means) return;
  const NoGrad guard;
  const Inventory now(primary);
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64})
    if (const auto which = impl_->changed_means(now, dtype); !which.empty())
      impl_->average(now, which, ran, all, group);
}

void ReplicaSync::fail_pass() noexcept {
  if (!impl_) return;
  for (Impl::Replica& replica : impl_->replicas)
    for (std::size_t k = 0; k < replica.was.size(); ++k)
      if (!replica.inventory.states[k].state->requires_grad()) replica.was[k] = Seen();
}

}  // namespace lockstep
