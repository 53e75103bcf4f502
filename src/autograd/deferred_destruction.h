// Frees a graph in a loop. If the destructor of each node destroyed the next node, a long chain of nodes, of gradients,
// or of tensors that hooks hold would overflow the stack. Each thread has its own list.
#pragma once

#include <memory>
#include <new>
#include <utility>
#include <vector>

#include <lockstep/tensor/tensor.h>

namespace lockstep::autograd {

/// The objects that this thread will destroy.
class DeferredDestruction {
 public:
  void add(std::shared_ptr<const void> object) noexcept {
    if (object) keep(objects_, object);
  }
  void add(Tensor tensor) noexcept {
    if (tensor.defined()) keep(tensors_, tensor);
  }

  /// For destructors. collect(deferred) adds the objects that the destructor would destroy. The outermost destroy() of
  /// this thread then destroys them all.
  template <class Collect>
  static void destroy(const Collect& collect) {
    if (DeferredDestruction* const outer = current()) return collect(*outer);
    DeferredDestruction all;
    collect(all);
    all.destroy_all();
  }

 private:
  static DeferredDestruction*& current() noexcept;
  void destroy_all() noexcept;

  template <class T>
  static void keep(std::vector<T>& list, T& object) noexcept {
    try {
      list.push_back(std::move(object));
    } catch (const std::bad_alloc&) {  // not deferred: its owner's destructor destroys it at once
    }
  }

  std::vector<std::shared_ptr<const void>> objects_;  // nodes, and lists of hooks
  std::vector<Tensor> tensors_;
};

}  // namespace lockstep::autograd
