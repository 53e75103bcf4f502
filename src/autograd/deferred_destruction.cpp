#include "autograd/deferred_destruction.h"

namespace lockstep::autograd {

DeferredDestruction*& DeferredDestruction::current() noexcept {
  thread_local DeferredDestruction* current = nullptr;
  return current;
}

void DeferredDestruction::destroy_all() noexcept {
  DeferredDestruction*& active = current();
  active = this;
  while (!objects_.empty() || !tensors_.empty()) {
    if (objects_.empty()) {
      const Tensor tensor = std::move(tensors_.back());
      tensors_.pop_back();
    } else {
      const std::shared_ptr<const void> object = std::move(objects_.back());
      objects_.pop_back();
    }
  }
  active = nullptr;
}

}  // namespace lockstep::autograd
