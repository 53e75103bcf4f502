#include <lockstep/nn/module.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include <lockstep/autograd/grad_mode.h>

#include "autograd/meta.h"
#include "core/text.h"
#include "core/type_name.h"
#include "nn/each_state.h"
#include "runtime/registry.h"

namespace lockstep::nn {
namespace {

void check_shaped(const Path& path, const State& value) {
  if (!value.defined())
    throw InvalidArgument(
        text("[parameters] expected \"", path.str(), "\" to have a shape, got a lazy one: run one batch first"));
}

// The required sizes, where -1 matches any; nullopt if any shape fits.
std::optional<Shape> expected_sizes(const State& value) {
  return value.defined() ? std::optional(value.sizes()) : std::nullopt;
}
std::optional<Shape> expected_sizes(const Parameter& value) {
  return value.defined() ? std::optional(value.sizes()) : value.lazy_sizes();
}

// True if the parameter or buffer is in the state dict.
bool is_kept(const Parameter&) { return true; }
bool is_kept(const Buffer& value) { return value.is_persistent(); }

// One line of advice for a state dict of another kind of model.
std::string advice_for(const StateDict& state, const LoadOptions& options, bool misses) {
  if (!misses || state.size() == 0 || !options.strip_prefix.empty()) return "";
  const auto every_key = [&](auto holds) {
    return std::all_of(state.begin(), state.end(), [&](const auto& entry) { return holds(entry.first); });
  };
  if (every_key([](const std::string& key) { return key.starts_with("module."); }))
    return "\nThese are the keys of a DataParallel: load them with {.strip_prefix = \"module.\"}";
  if (std::any_of(state.begin(), state.end(), [](const auto& entry) { return entry.first.starts_with("model."); }))
    return "\nThese are the keys of a checkpoint: load the model's with "
           "Checkpoint::load(file).tensors(\"model\"), or all of it with a Trainer that resumes";
  return "";
}

bool matches(const Shape& expected, const Shape& got) {
  return std::ranges::equal(expected, got, [](std::int64_t e, std::int64_t g) { return e == -1 || e == g; });
}

}  // namespace

void check_not_moved_from(const ModuleBase& module, const std::string& name) {
  if (!module.is_moved_from()) return;
  throw InvalidArgument(text('[', short_type_name(typeid(module)), "] expected a module", name.empty() ? "" : " ", name,
                             ", got one that was moved from: use the one that it was moved into"));
}

std::vector<Tensor> ModuleBase::parameters() const {
  std::vector<Tensor> result;
  for_each_state(*this, [&](const Path& path, Parameter& value) {
    check_shaped(path, value);
    result.push_back(value);
  });
  return result;
}

std::vector<StateDict::Entry> ModuleBase::named_parameters() const {
  std::vector<StateDict::Entry> result;
  for_each_state(*this, [&](const Path& path, Parameter& value) {
    check_shaped(path, value);
    result.emplace_back(path.str(), value);
  });
  return result;
}

StateDict ModuleBase::state_dict() const {
  StateDict state;
  for_each_state(*this, [&](const Path& path, auto& value) {
    if (!is_kept(value)) return;
    check_shaped(path, value);
    state.add(path.str(), value.detach());
  });
  return state;
}

IncompatibleKeys ModuleBase::load_state_dict(const StateDict& state, const LoadOptions& options) {
  struct Given {
    const Tensor* value;
    bool is_used = false;
  };
  std::map<std::string_view, Given> given;
  IncompatibleKeys left;
  std::string refused;
  for (const auto& [key, value] : state) {
    std::string_view name = key;
    if (name.starts_with(options.strip_prefix)) name.remove_prefix(options.strip_prefix.size());
    if (!given.emplace(name, Given{&value}).second) refused += text("\n  twice: ", name);
  }
  std::vector<std::function<void()>> loads;
  for_each_state(*this, [&](const Path& path, auto& value) {
    if (!is_kept(value)) return;
    const std::string key = path.str();
    const auto entry = given.find(key);
    if (entry != given.end() && std::exchange(entry->second.is_used, true)) {
      refused += text("\n  twice in the module: ", key);
      return;
    }
    if (entry == given.end() || !entry->second.value->defined()) {
      left.missing_keys.push_back(key);
      return;
    }
    const Tensor& source = *entry->second.value;
    if (const auto expected = expected_sizes(value); expected && !matches(*expected, source.sizes()))
      refused += text("\n  shape of ", key, ": expected ", *expected, ", got ", source.sizes());
    loads.push_back([&value, &source] {
      if (value.defined())
        value.copy_(source);
      else
        value.reset(source.clone());
    });
  });
  for (const auto& [key, entry] : given)
    if (!entry.is_used) left.unexpected_keys.emplace_back(key);
  std::string problems = refused;
  if (options.strict) {
    for (const std::string& key : left.missing_keys) problems += text("\n  missing: ", key);
    for (const std::string& key : left.unexpected_keys) problems += text("\n  unexpected: ", key);
  }
  if (!problems.empty())
    throw InvalidArgument(text("[load_state_dict] expected the keys and shapes of the module, got:", problems,
                               advice_for(state, options, !left.missing_keys.empty())));
  const NoGrad guard;
  for (const auto& load : loads) load();
  return left;
}

void ModuleBase::to(Device device) {
  device_state(device);
  for_each_state(*this, [&](const Path&, State& value) { value.place(device); });
}

void ModuleBase::to(DType dtype) {
  if (!is_floating(dtype)) throw DTypeError(text("[Module::to] expected a floating dtype, got ", dtype));
  for_each_state(*this, [&](const Path&, State& value) {
    if (value.defined() && is_floating(value.dtype())) value.convert(dtype);
  });
}

void ModuleBase::train(bool on) {
  for (ModuleBase* const module : modules()) module->set_mode(on);
}

void ModuleBase::zero_grad() {
  for_each_state(*this, [](const Path&, Parameter& value) {
    if (value.defined()) autograd::check_idle("zero_grad", value);
  });
  for_each_state(*this, [](const Path&, Parameter& value) {
    if (value.defined()) autograd::clear_grad("zero_grad", value);
  });
}

}  // namespace lockstep::nn
