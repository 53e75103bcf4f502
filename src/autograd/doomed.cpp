#include "autograd/doomed.h"

namespace lockstep::autograd {

Doomed*& Doomed::current() noexcept {
  thread_local Doomed* current = nullptr;
  return current;
}

void Doomed::destroy_all() noexcept {
  Doomed*& active = current();
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
