// Hooks: functions that backward calls with gradients, and their removal. Do not add hooks while a backward calls
// hooks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <lockstep/autograd/autograd.h>

#include "core/ranked_mutex.h"

namespace lockstep::autograd {

/// Functions that are called in the order in which they were added, until their handles remove them.
template <class Function>
class Hooks {
 public:
  HookHandle add(Function function) {
    const auto hooks = std::make_shared<List>();
    each([&](const std::shared_ptr<Hook>& hook) { hooks->push_back(hook); });
    const auto& added = hooks->emplace_back(std::make_shared<Hook>(std::move(function)));
    hooks_ = hooks;
    return HookHandle(added);
  }
  bool empty() const noexcept {
    return !hooks_ || std::none_of(hooks_->begin(), hooks_->end(), [](const auto& hook) { return hook->function(); });
  }
  /// Calls call(hook) for each hook. Hooks that a hook adds are first called by the next call_each().
  template <class Call>
  void call_each(const Call& call) const {
    each([&](const std::shared_ptr<Hook>& hook) {
      if (const auto function = hook->function()) call(*function);
    });
  }
  bool is_new() const noexcept { return !hooks_; }  ///< True if no hook was ever added.
  /// Returns a value that differs after a hook was added or removed.
  std::pair<std::shared_ptr<const void>, std::ptrdiff_t> state() const {
    if (!hooks_) return {};
    return {hooks_, std::count_if(hooks_->begin(), hooks_->end(), [](const auto& hook) { return hook->function(); })};
  }
  /// Moves out all hooks, so that the caller can destroy them later.
  std::shared_ptr<const void> take() noexcept { return std::move(hooks_); }

 private:
  class Hook final : public RemovableHook {
   public:
    explicit Hook(Function function) : function_(std::make_shared<const Function>(std::move(function))) {}
    /// Null if the hook was removed. The caller keeps the function alive during a call.
    std::shared_ptr<const Function> function() const {
      const std::scoped_lock lock(mutex_);
      return function_;
    }
    void remove() noexcept override {
      std::shared_ptr<const Function> removed;  // the function is destroyed outside the lock
      const std::scoped_lock lock(mutex_);
      removed.swap(function_);
    }

   private:
    mutable RankedMutex<LockRank::hook> mutex_;
    std::shared_ptr<const Function> function_;
  };
  using List = std::vector<std::shared_ptr<Hook>>;

  template <class Visit>
  void each(const Visit& visit) const {
    if (const auto hooks = hooks_)
      for (const std::shared_ptr<Hook>& hook : *hooks)
        if (hook->function()) visit(hook);
  }

  std::shared_ptr<const List> hooks_;  // copied on write, so that a call in progress keeps its list
};

/// Calls a hook: returns its result, or the gradient itself if the result is undefined. Throws ShapeError, DTypeError
/// or DeviceMismatch naming `op` if the result's shape, dtype or device differs from the gradient's.
Tensor apply_hook(const char* op, const std::function<Tensor(const Tensor&)>& hook, const Tensor& gradient);

}  // namespace lockstep::autograd
