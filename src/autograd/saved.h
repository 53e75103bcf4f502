// Who hears of what the graph keeps for backward, and keeps something else; and of what changes in place.
#pragma once

#include <memory>

#include <lockstep/autograd/saved.h>

namespace lockstep::autograd {

/// Stands for a saved tensor that is not kept.
class Dropped {
 public:
  virtual ~Dropped() = default;
  virtual Tensor get() = 0;  ///< Connected to a graph while gradients are recorded.
};

/// Context::save_listener: hears of each tensor that this thread saves, in order, but for leaves that require a
/// gradient; and of each that it is about to change in place.
class SaveListener {
 public:
  /// What is to be kept in the tensor's place; null for the tensor itself.
  virtual std::shared_ptr<Dropped> saves(const Tensor& tensor) = 0;
  virtual void changes(const Tensor& target) = 0;  ///< By an operation that may still throw.

 protected:
  ~SaveListener() = default;
};

}  // namespace lockstep::autograd
