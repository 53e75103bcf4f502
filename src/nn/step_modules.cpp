#include "nn/step_modules.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_set>
#include <utility>
#include <vector>

#include "autograd/meta.h"
#include "core/context.h"
#include "nn/module_hooks.h"
#include "tensor/host_state.h"

namespace lockstep::nn {

/// The modules that a captured step uses, as one HostStatePart. A root is a module that is watched together with all
/// modules below it.
class StepModules final : public HostStatePart {
 public:
  void add(const ModuleBase& module) {
    if (!known_.insert(&module).second) return;
    ModuleBase& walked = *modules_of(const_cast<ModuleBase&>(module)).front();  // walking does not change it
    roots_.push_back({walked.lifetime_.watch(), &walked, {}});
    if (has_begun_) roots_.back().found = hashes_of(walked);
  }

  bool is_gone() const override { return false; }
  void begin() override {
    has_begun_ = true;
    drop_gone();
    std::unordered_set<const ModuleBase*> covered;  // the modules of the roots in `kept`
    std::vector<Root> kept;
    for (const Root& root : roots_) {
      if (covered.contains(root.module)) continue;
      const std::vector<ModuleBase*> all = modules_of(*root.module);
      std::erase_if(kept, [&](const Root& other) { return std::ranges::find(all, other.module) != all.end(); });
      kept.push_back({root.lifetime, root.module, hashes_of(*root.module)});
      covered.insert(all.begin(), all.end());
    }
    roots_ = std::move(kept);
    known_.insert(covered.begin(), covered.end());
  }
  void end(const ReplayValues&) override { drop_gone(); }

  const char* find_mismatch() override {
    for (const Root& root : roots_) {
      if (root.lifetime.expired()) throw_gone_from_step("module");
      const StateHashes now = hashes_of(*root.module);
      if (now.modes != root.found.modes) return "the mode of a module";
      if (now.settings != root.found.settings) return "a setting of a module";
      if (now.states != root.found.states) return "the parts, parameters or buffers of a module";
    }
    return nullptr;
  }

 private:
  // Hashes by which a change since the capture is noticed, one for each kind of state.
  struct StateHashes {
    std::uint64_t modes = 0, settings = 0, states = 0;
  };
  struct Root {
    std::weak_ptr<const void> lifetime;
    ModuleBase* module;
    StateHashes found;
  };
  struct StateHasher final : Visitor {
    StateHashes hashes;

    static void mix(std::uint64_t& hash, std::uint64_t word) {
      hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 29;
    }
    template <class T>
    static void mix(std::uint64_t& hash, const T* address) {
      mix(hash, reinterpret_cast<std::uintptr_t>(address));
    }
    void add(State& value) {
      mix(hashes.states, &value);
      if (!value.defined()) return;
      mix(hashes.states, value.impl());
      mix(hashes.states, value.impl()->storage);
      mix(hashes.states, std::uint64_t(autograd::needs_grad(value)));
    }

    void module(const Path&, ModuleBase& module) override {
      mix(hashes.states, &module);
      mix(hashes.modes, std::uint64_t(module.training_) + 1);
      if (!module.has_forward_hooks()) return;
      const auto [hooks, count] = module.forward_hooks_->state();
      mix(hashes.settings, hooks.get());
      mix(hashes.settings, std::uint64_t(count));
    }
    void parameter(const Path&, Parameter& value) override { add(value); }
    void buffer(const Path&, Buffer& value) override { add(value); }
    void setting(const Path&, void* value, std::size_t bytes) override {
      std::array<unsigned char, sizeof(std::uint64_t)> part;
      for (std::size_t at = 0; at < bytes; at += part.size()) {
        part = {};
        std::memcpy(part.data(), static_cast<const std::byte*>(value) + at, std::min(part.size(), bytes - at));
        std::uint64_t word = 0;
        std::memcpy(&word, part.data(), part.size());
        mix(hashes.settings, word + 1);
      }
    }
    void extent(const Path&, std::size_t extent) override { mix(hashes.states, std::uint64_t(extent) + 1); }
  };

  // The module and all below it, the module first. For an AnyModule, the module that it holds is the first.
  static std::vector<ModuleBase*> modules_of(ModuleBase& module) {
    std::vector<ModuleBase*> modules = module.modules();
    if (modules.empty()) modules.push_back(&module);
    return modules;
  }
  static StateHashes hashes_of(ModuleBase& module) {
    StateHasher hasher;
    module.visit(Path(), hasher);
    return hasher.hashes;
  }
  // Drops modules that lived only in the step, such as one that forward() makes.
  void drop_gone() {
    std::erase_if(roots_, [&](const Root& root) { return root.lifetime.expired() && known_.erase(root.module) != 0; });
  }

  std::vector<Root> roots_;
  std::unordered_set<const ModuleBase*> known_;
  bool has_begun_ = false;
};

void use_in_step(const ModuleBase& module) {
  static const char kAll = 0;
  if (HostState* const parts = context().host_state) parts->add<StepModules>(&kAll).add(module);
}

ForwardObserver* begin_call(ModuleBase& module) {
  if (module.is_moved_from()) check_not_moved_from(module);
  use_in_step(module);
  return context().forward_observer;
}

bool ModuleBase::is_training() const {
  use_in_step(*this);
  return training_;
}

}  // namespace lockstep::nn
