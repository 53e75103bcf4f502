// for_each_state: visits a module's parameters and buffers. (A Visitor also sees settings and containers.)
#pragma once

#include <concepts>

#include <lockstep/nn/module.h>

#include "nn/step_modules.h"

namespace lockstep::nn {

/// Calls function(path, value) for each parameter and buffer that `function` takes, in order: all if `value` is a
/// State& or auto&, only parameters if it is a Parameter&, only buffers if it is a Buffer&. Throws InvalidArgument for
/// a module that was moved from.
template <class F>
void for_each_state(const ModuleBase& module, const F& function) {
  constexpr bool kTakesParameters = std::invocable<const F&, const Path&, Parameter&>,
                 kTakesBuffers = std::invocable<const F&, const Path&, Buffer&>;
  static_assert(kTakesParameters || kTakesBuffers);
  struct EachState final : Visitor {
    const F& function;
    explicit EachState(const F& f) : function(f) {}
    void module(const Path& path, ModuleBase& each) override {
      if (each.is_moved_from()) check_not_moved_from(each, path.str());
    }
    void parameter(const Path& path, Parameter& value) override {
      if constexpr (kTakesParameters) function(path, value);
    }
    void buffer(const Path& path, Buffer& value) override {
      if constexpr (kTakesBuffers) function(path, value);
    }
  } visitor(function);
  const_cast<ModuleBase&>(module).visit(Path(), visitor);  // walking does not change the module
}

/// Names the kind of a state in messages.
inline const char* kind_name(const Parameter&) { return "parameter"; }
inline const char* kind_name(const Buffer&) { return "buffer"; }

}  // namespace lockstep::nn
