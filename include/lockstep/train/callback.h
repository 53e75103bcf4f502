// Callback: what a user's code does at the turns of Trainer::fit(), and what it may know and ask there.
//
//   struct PrintRate : train::Callback {
//     void on_epoch_end(train::FitState& fit) override { print("rate {}\n", fit.optimizer().lr()); }
//   };
//   PrintRate rate;
//   trainer.fit(net, loader, {.loss = loss, .optimizer = optimizer, .callbacks = {rate}});
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/nn/module.h>
#include <lockstep/optim/optimizer.h>
#include <lockstep/runtime/world.h>
#include <lockstep/tensor/state_dict.h>
#include <lockstep/train/history.h>
#include <lockstep/train/reference.h>

namespace lockstep::train {

class Monitor;
namespace detail {
class FitLoop;
}

/// The training that a callback is called by. Valid while fit() runs; of the thread that called it.
class LOCKSTEP_API FitState {
 public:
  /// The epoch that runs, from 1; in on_fit_begin() the first one to run, in on_fit_end() the last one that was begun.
  std::int64_t epoch() const noexcept;
  std::int64_t max_epochs() const noexcept;  ///< Of the Trainer's options.
  std::int64_t step() const noexcept;        ///< Steps that are done, of all epochs.
  /// Whether this run goes on from a checkpoint, which gave callbacks their state back.
  bool is_resumed() const noexcept;
  bool has_validation() const noexcept;  ///< Whether there is a loader for validation.

  nn::ModuleBase& module() const noexcept;
  /// Of the loss, then those of FitOptions::also in their order. Throws InvalidArgument past the last.
  optim::Optimizer& optimizer(std::size_t index = 0) const;
  const World& world() const noexcept;

  /// The row of the history that was added last, such as train_loss and validation_loss: over all processes' rows, and
  /// the same numbers in all of them. In on_validation_end() and on_epoch_end() that of the epoch.
  std::span<const History::Value> metrics() const noexcept;
  /// Throws InvalidArgument, naming those that there are, if the row has no such value.
  double metric(std::string_view name) const;
  const History& history() const noexcept;

  /// Asks to end training: after the step at hand, where there is a checkpoint then, or after the epoch, if that has
  /// ended. With several processes, one that asks is enough; they end together, at the next row of the history or at
  /// the end of the epoch. fit() returns the history so far. The reason is shown with the progress: "stopped after
  /// epoch 3, step 120: validation_loss is nan".
  void stop(std::string reason = "a callback asked for it");
  bool is_stopping() const noexcept;  ///< Whether stop() was called.

  /// Runs `write` in the first process, for what only one is to write. All processes call it; what it throws, all
  /// throw.
  void on_first_process(const char* what, const std::function<void()>& write) const;

 private:
  friend class detail::FitLoop;
  friend class Monitor;
  /// Throws InvalidArgument, which all processes do.
  [[noreturn]] void refuse(const std::string& message) const;
  explicit FitState(detail::FitLoop& loop) noexcept : loop_(&loop) {}

  detail::FitLoop* loop_;
};

/// Called in the order of FitOptions::callbacks, in every process. What one throws ends fit(). A callback that is to go
/// on after a resumed run as if that had never been interrupted keeps what it knows in its state dict.
class LOCKSTEP_API Callback {
 public:
  virtual ~Callback();

  /// After a checkpoint was taken over, if one was. Again where training goes on without a lost device.
  virtual void on_fit_begin(FitState&) {}
  virtual void on_fit_end(FitState&) {}      ///< Not after an error.
  virtual void on_epoch_begin(FitState&) {}  ///< Also for the rest of an epoch that a resumed run begins with.
  /// After validation; before a schedule steps, and before a checkpoint is written.
  virtual void on_epoch_end(FitState&) {}
  virtual void on_step_begin(FitState&) {}        ///< Its batches are there; none has been computed with.
  virtual void on_step_end(FitState&) {}          ///< Parameters have changed; the devices may not be done.
  virtual void on_validation_begin(FitState&) {}  ///< Before the first batch.
  virtual void on_validation_end(FitState&) {}    ///< The epoch's row is in the history.

  /// The key of its state in checkpoints. Callbacks with state have different names.
  virtual std::string name() const { return "callback"; }
  virtual StateDict state_dict() const { return {}; }
  /// Throws InvalidArgument, and changes nothing then, for anything that state_dict() does not give.
  virtual void load_state_dict(const StateDict&) {}

 protected:
  Callback() = default;
  Callback(const Callback&) = default;
  Callback& operator=(const Callback&) = default;
};

/// A callback in a list: referred to, not copied. A shared pointer keeps it alive.
class LOCKSTEP_API CallbackRef {
 public:
  CallbackRef(Callback& callback) : callback_(&callback) {}
  template <std::derived_from<Callback> C>
  CallbackRef(C&&) {  // no reference: a temporary
    static_assert(detail::kNever<C>,
                  "a callback is referred to, and this one would be gone when training begins: give "
                  "it a name first, or std::make_shared<train::EarlyStopping>(...)");
  }
  CallbackRef(Callback* callback) : callback_(callback) { check(); }  ///< Throws InvalidArgument for null.
  template <std::derived_from<Callback> C>
  CallbackRef(std::shared_ptr<C> callback) : kept_(std::move(callback)), callback_(kept_.get()) {
    check();
  }
  operator Callback&() const noexcept { return *callback_; }  ///< What it refers to.
  Callback& get() const noexcept { return *callback_; }       ///< What it refers to.

 private:
  void check() const;

  std::shared_ptr<Callback> kept_;
  Callback* callback_;
};

/// .callbacks = {early, &best, std::make_shared<PrintRate>()}.
using Callbacks = std::vector<CallbackRef>;

}  // namespace lockstep::train
