// The tree of a module's submodules, its buffers and its device.
#include <lockstep/nn/module.h>

#include <algorithm>
#include <concepts>
#include <optional>

#include "core/text.h"
#include "nn/each_state.h"

namespace lockstep::nn {
namespace {

struct NamedModules final : Visitor {
  std::vector<ModuleBase::NamedModule> all;
  void module(const Path& path, ModuleBase& module) override { all.emplace_back(path.str(), &module); }
};

std::vector<ModuleBase::NamedModule> tree_of(ModuleBase& module) {
  NamedModules visitor;
  module.visit(Path(), visitor);
  return std::move(visitor.all);
}

// True if the module `name` is below `above`.
bool is_below(const std::string& name, const std::string& above) {
  return above.empty() || (name.size() > above.size() && name.starts_with(above) && name[above.size()] == '.');
}

std::vector<ModuleBase*> without_names(const std::vector<ModuleBase::NamedModule>& named) {
  std::vector<ModuleBase*> modules;
  for (const auto& each : named) modules.push_back(each.second);
  return modules;
}

}  // namespace

std::vector<ModuleBase::NamedModule> ModuleBase::named_modules() { return tree_of(*this); }
std::vector<ModuleBase*> ModuleBase::modules() { return without_names(tree_of(*this)); }

std::vector<ModuleBase::NamedModule> ModuleBase::named_children() {
  std::vector<NamedModule> children;
  const std::vector<NamedModule> all = tree_of(*this);
  for (std::size_t i = 1; i < all.size(); ++i)
    if (children.empty() || !is_below(all[i].first, children.back().first)) children.push_back(all[i]);
  return children;
}
std::vector<ModuleBase*> ModuleBase::children() { return without_names(named_children()); }

void ModuleBase::apply(const std::function<void(ModuleBase&)>& function) {
  if (!function) throw InvalidArgument("[Module::apply] expected a function, got none");
  const std::vector<NamedModule> all = tree_of(*this);
  std::vector<const NamedModule*> open;  // to be called after the modules below them
  const auto close = [&](auto stays) {
    while (!open.empty() && !stays(*open.back())) {
      function(*open.back()->second);
      open.pop_back();
    }
  };
  for (const NamedModule& each : all) {
    close([&](const NamedModule& above) { return is_below(each.first, above.first); });
    open.push_back(&each);
  }
  close([](const NamedModule&) { return false; });
}

std::vector<StateDict::Entry> ModuleBase::named_buffers() const {
  std::vector<StateDict::Entry> all;
  for_each_state(*this, [&](const Path& path, Buffer& value) {
    if (value.defined()) all.emplace_back(path.str(), value);
  });
  return all;
}

std::vector<Tensor> ModuleBase::buffers() const {
  std::vector<Tensor> all;
  for (const auto& [name, buffer] : named_buffers()) all.push_back(buffer);
  return all;
}

Device ModuleBase::device() const {
  std::optional<Device> of_parameter, of_buffer;
  for_each_state(*this, [&]<class S>(const Path&, S& value) {
    std::optional<Device>& first = std::same_as<S, Parameter> ? of_parameter : of_buffer;
    if (!first && value.defined()) first = value.device();
  });
  if (of_parameter) return *of_parameter;
  if (of_buffer) return *of_buffer;
  throw InvalidArgument("[Module::device] expected a module with parameters or buffers, got one without");
}

void ModuleBase::requires_grad_(bool on) {
  std::vector<Tensor> all = parameters();
  for (const Tensor& parameter : all)
    if (on && !is_floating(parameter.dtype()))
      throw DTypeError(text("[requires_grad_] expected floating parameters, got one of ", parameter.dtype()));
  for (Tensor& parameter : all) parameter.requires_grad_(on);
}

}  // namespace lockstep::nn
