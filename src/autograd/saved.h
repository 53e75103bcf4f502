// SaveListener: checkpoint() uses it to replace saved tensors, and to learn of in-place changes.
#pragma once

#include <memory>

#include <lockstep/autograd/saved.h>

namespace lockstep::autograd {

/// A placeholder for a saved tensor that is not kept.
class SavedPlaceholder {
 public:
  virtual ~SavedPlaceholder() = default;
  virtual Tensor get() = 0;  ///< The tensor, connected to a graph if gradients are recorded.
};

/// The type of Context::save_listener. on_save() is called for each tensor that this thread saves, in order, except
/// leaves that require a gradient; on_in_place() for each tensor that the thread is about to change in place.
class SaveListener {
 public:
  /// Returns the object to keep in the tensor's place; null to keep the tensor itself.
  virtual std::shared_ptr<SavedPlaceholder> on_save(const Tensor& tensor) = 0;
  virtual void on_in_place(const Tensor& target) = 0;  ///< Called before the change, which may still fail.

 protected:
  ~SaveListener() = default;
};

}  // namespace lockstep::autograd
