// What frees a graph in a loop. Were each node destroyed inside the destructor of the one before, a long chain would
// overflow the stack: of nodes, of gradients, and of tensors that hooks hold. Of each thread.
#pragma once

#include <memory>
#include <new>
#include <utility>
#include <vector>

#include <lockstep/tensor/tensor.h>

namespace lockstep::autograd {

/// What this thread is to destroy.
class Doomed {
 public:
  void add(std::shared_ptr<const void> object) noexcept {
    if (object) keep(objects_, object);
  }
  void add(Tensor tensor) noexcept {
    if (tensor.defined()) keep(tensors_, tensor);
  }

  /// Calls collect(doomed), which adds what a destructor would destroy, and destroys it; inside another destructor that
  /// does so, leaves it to that one.
  template <class Collect>
  static void destroy(const Collect& collect) {
    if (Doomed* const outer = current()) return collect(*outer);
    Doomed all;
    collect(all);
    all.destroy_all();
  }

 private:
  static Doomed*& current() noexcept;
  void destroy_all() noexcept;

  template <class T>
  static void keep(std::vector<T>& list, T& object) noexcept {
    try {
      list.push_back(std::move(object));
    } catch (const std::bad_alloc&) {  // it goes at once, inside its owner's destructor
    }
  }

  std::vector<std::shared_ptr<const void>> objects_;  // nodes, and lists of hooks
  std::vector<Tensor> tensors_;
};

}  // namespace lockstep::autograd
