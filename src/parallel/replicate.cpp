#include <lockstep/parallel/replicate.h>

#include <cstring>

#include <lockstep/autograd/grad_mode.h>

#include "core/text.h"
#include "tensor/copy.h"
#include "tensor/tensor_impl.h"

namespace lockstep {
namespace {

// All of a module's state, in order.
struct Inventory final : nn::Visitor {
  std::vector<nn::State*> states;
  std::vector<std::pair<void*, std::size_t>> settings;
  std::vector<nn::ModuleBase*> modules;

  explicit Inventory(nn::ModuleBase& module) { module.visit(nn::Path(), *this); }
  void module(const nn::Path&, nn::ModuleBase& module) override { modules.push_back(&module); }
  void parameter(const nn::Path&, nn::Parameter& value) override { states.push_back(&value); }
  void buffer(const nn::Path&, nn::Buffer& value) override { states.push_back(&value); }
  void setting(const nn::Path&, void* value, std::size_t bytes) override { settings.emplace_back(value, bytes); }
};

// A tensor's memory and how often it has changed.
struct Seen {
  const Storage* storage = nullptr;
  std::uint64_t version = 0;
  Seen() = default;
  explicit Seen(const nn::State& state) : storage(state.impl()->storage), version(state.version()) {}
};

// Whether a replica still is what its primary is: both are where they were, and have changed equally often since they
// were the same, as an optimizer changes them. A buffer changes by itself on each device: only the primary's counts.
bool in_lockstep(const Seen& primary_was, const nn::State& primary, const Seen& replica_was, const nn::State& replica) {
  const Seen now(primary), there(replica);
  if (now.storage != primary_was.storage || there.storage != replica_was.storage) return false;
  const std::uint64_t changes = now.version - primary_was.version;
  return changes == 0 || (primary.requires_grad() && changes == there.version - replica_was.version);
}

class Placement final : public nn::Visitor {
 public:
  explicit Placement(Device device) : device_(device) {}
  void parameter(const nn::Path& path, nn::Parameter& value) override { check("parameter", path, value); }
  void buffer(const nn::Path& path, nn::Buffer& value) override { check("buffer", path, value); }

 private:
  void check(const char* kind, const nn::Path& path, const nn::State& value) const {
    if (!value.defined())
      throw InvalidArgument(text("[DataParallel] expected ", kind, " \"", path.str(),
                                 "\" to have a shape, got a lazy one: run one batch through the module first"));
    if (value.device() != device_)
      throw DeviceMismatch(text("[DataParallel] expected ", kind, " \"", path.str(), "\" on ", device_, ", got it on ", value.device()));
  }
  Device device_;
};

}  // namespace

struct ReplicaSync::Impl {
  struct Replica {
    Inventory inventory;
    std::vector<Seen> primary_was, was;  // each state when they were last made equal
  };
  std::vector<Replica> replicas;

  void update(const Inventory& primary) {
    const NoGrad guard;
    for (Replica& replica : replicas) {
      const Inventory& own = replica.inventory;
      for (std::size_t k = 0; k < primary.states.size(); ++k) {
        const nn::State& source = *primary.states[k];
        nn::State& target = *own.states[k];
        if (in_lockstep(replica.primary_was[k], source, replica.was[k], target)) continue;
        copy_values(target, source);
        bump_version(target);
        replica.primary_was[k] = Seen(source);
        replica.was[k] = Seen(target);
      }
      for (std::size_t k = 0; k < primary.settings.size(); ++k)
        std::memcpy(own.settings[k].first, primary.settings[k].first, primary.settings[k].second);
      for (std::size_t k = 0; k < primary.modules.size(); ++k) own.modules[k]->set_mode(primary.modules[k]->is_training());
    }
  }

  bool fits(const Inventory& primary) const {
    const Inventory& replica = replicas.front().inventory;
    bool same = primary.states.size() == replica.states.size() && primary.settings.size() == replica.settings.size() &&
                primary.modules.size() == replica.modules.size();
    for (std::size_t k = 0; same && k < primary.states.size(); ++k) {
      const nn::State &a = *primary.states[k], &b = *replica.states[k];
      same = a.sizes() == b.sizes() && a.dtype() == b.dtype() && a.requires_grad() == b.requires_grad();
    }
    return same;
  }
};

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
  for (nn::ModuleBase* module : replicas) {
    Impl::Replica& replica = impl_->replicas.emplace_back(Impl::Replica{Inventory(*module), {}, {}});
    for (const nn::State* state : inventory.states) replica.primary_was.emplace_back(*state);
    for (const nn::State* state : replica.inventory.states) replica.was.emplace_back(*state);
  }
}

bool ReplicaSync::update(nn::ModuleBase& primary) {
  const Inventory now(primary);
  if (impl_->replicas.empty() || !impl_->fits(now)) return false;
  impl_->update(now);
  return true;
}

}  // namespace lockstep
