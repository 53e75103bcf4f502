// Progress of training, for people: a bar on a terminal, plain lines elsewhere. One thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <lockstep/train/history.h>

namespace lockstep::train {

struct ProgressOptions {
  std::ostream* out = &std::cout;  ///< Null: silent.
  /// Columns; 0: not a terminal. Else asked of std::cout and std::cerr, again for each bar; under mpirun of its own
  /// output, since it gives each process a terminal.
  std::optional<int> terminal_width = {};
  int refresh_ms = 100;  ///< The bar is drawn again after this time at the earliest, and only if it has changed.
  /// Where there is no terminal: a line says where training stands when there was none for so long. 0: none does.
  int line_every_ms = 60'000;
};

/// Where training stands.
struct ProgressPoint {
  std::int64_t epoch = 0;                           ///< From 1.
  std::int64_t epochs = 0;                          ///< Of the whole run.
  std::int64_t step = 0;                            ///< Of all epochs.
  std::int64_t step_in_epoch = 0;                   ///< From 1.
  std::optional<std::int64_t> steps_in_epoch = {};  ///< Where the loader knows.
  bool ends_epoch = false;                          ///< Whether it is the last point of its epoch.
};

class Screen;

/// A terminal shows one line for each epoch that has ended, and a bar below, which is narrower than the terminal, and
/// is erased when this goes. What the program prints meanwhile, with print() or to std::cout and std::cerr, goes above
/// the bar: where that is a terminal, these streams are led through this while it lives. Elsewhere there is one line
/// for each report, "epoch 1/3, step 50: train_loss 0.6931", and one when there was none for line_every_ms.
class LOCKSTEP_API Progress {
 public:
  explicit Progress(const ProgressOptions& options);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void step(const ProgressPoint& at);
  /// Its time does not count in the steps per second.
  void begin_validation();
  /// After a batch of it, counted from 1.
  void validation(const ProgressPoint& at, std::int64_t batch, std::optional<std::int64_t> batches = {});
  void end_validation();  ///< The bar shows training again.
  /// Values that came to be known, of that point or of one before it.
  void report(const ProgressPoint& at, std::span<const History::Value> values);
  /// A line of its own, everywhere.
  void note(const std::string& text);

 private:
  using Clock = std::chrono::steady_clock;

  bool is_due() const;
  void show(std::string line);
  double seconds_of_steps() const;
  /// Of the whole run; nothing where that cannot be told.
  std::optional<double> seconds_left(const ProgressPoint& at) const;

  std::unique_ptr<Screen> screen_;
  Clock::duration refresh_, line_every_;
  std::optional<Clock::time_point> drawn_;  // when the bar was, if it is there
  Clock::time_point start_ = Clock::now();
  Clock::time_point line_ = start_;  // when the last one was written
  std::int64_t steps_ = 0;           // since start_
  Clock::time_point validation_start_;
  double validation_seconds_ = 0;
  std::int64_t validations_ = 0;
  std::string values_;  // last reported
};

}  // namespace lockstep::train
