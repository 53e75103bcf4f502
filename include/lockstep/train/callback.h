// Callback: user code that Trainer::fit() calls at fixed points of training, and the state it can read and requests it
// can make there.
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

#include <lockstep/distributed/world.h>
#include <lockstep/nn/module.h>
#include <lockstep/optim/optimizer.h>
#include <lockstep/report/history.h>
#include <lockstep/tensor/state_dict.h>
#include <lockstep/train/optional_ref.h>

namespace lockstep::train {

class Monitor;
namespace detail {
class FitLoop;
}

/// The training run that calls a callback. Valid while fit() runs; use it on the thread that called fit().
class LOCKSTEP_API FitState {
 public:
  /// The current epoch, from 1; in on_fit_begin() the first epoch that will run, in on_fit_end() the last that began.
  std::int64_t epoch() const noexcept;
  std::int64_t max_epochs() const noexcept;  ///< As in the Trainer's options.
  std::int64_t step() const noexcept;        ///< Steps done, over all epochs.
  /// True if this run continues from a checkpoint, which restored the callbacks' states.
  bool is_resumed() const noexcept;
  bool has_validation() const noexcept;  ///< True if there is a validation loader.

  nn::ModuleBase& module() const noexcept;
  /// Index 0 is the loss's optimizer; the optimizers of FitOptions::also follow. Throws InvalidArgument past the last
  /// one.
  optim::Optimizer& optimizer(std::size_t index = 0) const;
  const World& world() const noexcept;

  /// The values of the history's latest row, such as train_loss and validation_loss: means over the rows of all
  /// processes, the same in every process. In on_validation_end() and on_epoch_end() this is the epoch's row.
  std::span<const History::Value> metrics() const noexcept;
  /// The value of that column in metrics(). If there is none, throws an InvalidArgument that lists the columns.
  double metric(std::string_view name) const;
  const History& history() const noexcept;

  /// Requests the end of training: after the current step (with a checkpoint, if the run has a checkpoint folder), or
  /// after the epoch, if its last step has ended. With several processes the request of one is enough; all processes
  /// end together, at the next row of the history or at the end of the epoch. fit() returns the history so far. The
  /// progress shows the reason: "stopped after epoch 3, step 120: validation_loss is nan".
  void stop(std::string reason = "a callback asked for it");
  bool is_stopping() const noexcept;  ///< True after stop() was called.

  /// Runs `write` in the first process only, for files that only one process must write. All processes must call this.
  /// If `write` throws, all processes throw its error.
  void on_first_process(const char* what, const std::function<void()>& write) const;

 private:
  friend class detail::FitLoop;
  friend class Monitor;
  /// Throws InvalidArgument. All processes must call it, and all of them throw.
  [[noreturn]] void refuse(const std::string& message) const;
  explicit FitState(detail::FitLoop& loop) noexcept : loop_(&loop) {}

  detail::FitLoop* loop_;
};

/// fit() calls the callbacks in the order of FitOptions::callbacks, in every process. An exception from a callback ends
/// fit(). A callback that must continue exactly in a resumed run returns its data from state_dict().
class LOCKSTEP_API Callback {
 public:
  virtual ~Callback();

  /// Called after the checkpoint, if any, was loaded; and again when training continues after the loss of a device.
  virtual void on_fit_begin(FitState&) {}
  virtual void on_fit_end(FitState&) {}  ///< Not called after an error.
  /// Also called if a resumed run starts in the middle of an epoch.
  virtual void on_epoch_begin(FitState&) {}
  /// Called after validation, before a schedule steps and before a checkpoint is written.
  virtual void on_epoch_end(FitState&) {}
  virtual void on_step_begin(FitState&) {}        ///< The step's batches are loaded; no forward has run.
  virtual void on_step_end(FitState&) {}          ///< The optimizers have stepped; the devices may still be working.
  virtual void on_validation_begin(FitState&) {}  ///< Before the first batch.
  virtual void on_validation_end(FitState&) {}    ///< The epoch's row is in the history by now.

  /// The key of the callback's state in checkpoints. Callbacks with state need different names.
  virtual std::string name() const { return "callback"; }
  virtual StateDict state_dict() const { return {}; }
  /// If state_dict() cannot have produced the state dict, throws InvalidArgument and changes nothing.
  virtual void load_state_dict(const StateDict&) {}

 protected:
  Callback() = default;
  Callback(const Callback&) = default;
  Callback& operator=(const Callback&) = default;
};

/// A callback in a list: a reference, not a copy. A shared pointer keeps the callback alive.
class LOCKSTEP_API CallbackRef {
 public:
  CallbackRef(Callback& callback) : callback_(&callback) {}
  template <std::derived_from<Callback> C>
  CallbackRef(C&&) {  // C is not a reference type, so the argument is a temporary
    static_assert(detail::kNever<C>,
                  "a callback is kept by reference, and this temporary would be destroyed before training begins: give "
                  "it a name first, or use std::make_shared<train::EarlyStopping>(...)");
  }
  CallbackRef(Callback* callback) : callback_(callback) { check(); }  ///< Throws InvalidArgument for null.
  template <std::derived_from<Callback> C>
  CallbackRef(std::shared_ptr<C> callback) : kept_(std::move(callback)), callback_(kept_.get()) {
    check();
  }
  operator Callback&() const noexcept { return *callback_; }  ///< The callback.
  Callback& get() const noexcept { return *callback_; }       ///< The callback.

 private:
  void check() const;

  std::shared_ptr<Callback> kept_;
  Callback* callback_;
};

/// .callbacks = {early, &best, std::make_shared<PrintRate>()}.
using Callbacks = std::vector<CallbackRef>;

}  // namespace lockstep::train
