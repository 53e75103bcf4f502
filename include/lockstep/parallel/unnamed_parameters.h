// Finds parameters that a model computes with, and that members() does not name: nothing would train, move or save
// them.
#pragma once

#include <span>
#include <vector>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/nn/module.h>
#include <lockstep/tensor/tensors_in.h>

namespace lockstep::detail {

/// Looks at the first output that backward goes back from, and writes a line to standard error. That is one walk over
/// the graph of one pass.
class LOCKSTEP_API UnnamedParameters {
 public:
  bool looks() const noexcept { return !is_done_ && grad_enabled(); }  ///< Else the rest need not be called.
  /// Before the pass: what the look does not go back beyond.
  template <class Argument>
  void add_input(const Argument& argument) {
    collect(argument, inputs_);
  }
  /// After it.
  template <class Output>
  void look(const nn::ModuleBase& module, const Output& output) {
    std::vector<Tensor> outputs;
    collect(output, outputs);
    look_at(module, outputs);
  }

 private:
  template <class T>
  static void collect(const T& value, std::vector<Tensor>& tensors) {
    if constexpr (kHoldsTensors<T>)  // walking does not change it
      for_each_tensor(const_cast<T&>(value), MemberPath(),
                      [&](const MemberPath&, Tensor& tensor) { tensors.push_back(tensor); });
  }
  void look_at(const nn::ModuleBase& module, std::span<const Tensor> outputs);

  std::vector<Tensor> inputs_;
  bool is_done_ = false;
};

}  // namespace lockstep::detail
