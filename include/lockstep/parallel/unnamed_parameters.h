// Finds parameters that a model uses but does not list in members(): nothing would train, move or save them.
#pragma once

#include <span>
#include <vector>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/nn/module.h>
#include <lockstep/tensor/tensors_in.h>

namespace lockstep::detail {

/// Checks one forward pass, the first one whose output requires a gradient: walks the autograd graph from the outputs
/// back to the arguments, and warns of such parameters on standard error.
class LOCKSTEP_API UnnamedParameters {
 public:
  bool is_enabled() const noexcept { return !is_done_ && grad_enabled(); }  ///< If false, do not call the others.
  /// Call this before the forward pass, for each argument. Notes the tensors in the argument: check() does not walk
  /// past them, into the graph of what was computed before the pass.
  template <class Argument>
  void add_input(const Argument& argument) {
    collect(argument, inputs_);
  }
  /// Call this after the forward pass: it walks the graph of `output`, and warns.
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
