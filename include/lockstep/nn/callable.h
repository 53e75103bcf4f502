// A function as a module.
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

#include <lockstep/nn/module.h>

namespace lockstep::nn {

/// A function or lambda where a module is expected: Sequential{Linear(4, 8), [](const Tensor& x) { return relu(x); }}.
/// Replicas call copies of it. A captured tensor stays on its device and is not trained: put it into a module instead.
template <class F>
class Functional : public Module<Functional<F>> {
 public:
  Functional(F function) : function_(std::move(function)) {}
  auto members() { return lockstep::members(); }
  template <class... Arguments>
  decltype(auto) forward(Arguments&&... arguments) {
    return function_(std::forward<Arguments>(arguments)...);
  }

 private:
  F function_;
};

/// A callable on tensors that is not a module.
template <class F>
concept TensorFunction = !std::derived_from<std::remove_cvref_t<F>, ModuleBase> && std::invocable<F&, const Tensor&>;

}  // namespace lockstep::nn
