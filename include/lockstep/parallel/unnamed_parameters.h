// Finds parameters that a model uses but does not list in members(): nothing would train, move or save them.
#pragma once

#include <span>
#include <vector>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/nn/module.h>
#include <lockstep/tensor/tensors_in.h>

namespace lockstep::detail {

/// Walks the graph of the first pass whose output requires a gradient, and warns of such parameters on standard error.
class LOCKSTEP_API UnnamedParameters {
 public:
  bool is_enabled() const noexcept { return !is_done_ && grad_enabled(); }  ///< If false, do not call the others.
  /// Called before the pass, for each argument. The walk through the graph stops at the tensors in the arguments.
  template <class Argument>
  void add_input(const Argument& argument) {
    collect(argument, inputs_);
  }
  /// Called after the pass.
  template <class Output>
  void check(const nn::ModuleBase& module, const Output& output) {
    std::vector<Tensor> outputs;
    collect(output, outputs);
    check_outputs(module, outputs);
  }

 private:
  template <class T>
  static void collect(const T& value, std::vector<Tensor>& tensors) {
    if constexpr (kHoldsTensors<T>)  // for_each_tensor() with this function does not change the value
      for_each_tensor(const_cast<T&>(value), MemberPath(),
                      [&](const MemberPath&, Tensor& tensor) { tensors.push_back(tensor); });
  }
  void check_outputs(const nn::ModuleBase& module, std::span<const Tensor> outputs);

  std::vector<Tensor> inputs_;
  bool is_done_ = false;
};

}  // namespace lockstep::detail
