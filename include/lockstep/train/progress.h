// Progress of training for people: a bar on a terminal, plain lines elsewhere. One thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <lockstep/report/history.h>

namespace lockstep::train {

struct ProgressOptions {
  std::ostream* out = &std::cout;  ///< Null: silent.
  /// Columns; 0: not a terminal. The default is the width of the terminal of std::cout and std::cerr, which is queried
  /// again for each bar; under mpirun, which gives each process a terminal, it is the width of mpirun's own terminal.
  std::optional<int> terminal_width = {};
  int refresh_ms = 100;  ///< Least time between two draws of the bar, which is drawn only if it has changed.
  /// Without a terminal: if no line was printed for this long, prints the position of training. 0: never.
  int line_every_ms = 60'000;
};

/// A position in training.
struct ProgressPoint {
  std::int64_t epoch = 0;                           ///< From 1.
  std::int64_t epochs = 0;                          ///< In the whole run.
  std::int64_t step = 0;                            ///< Over all epochs.
  std::int64_t step_in_epoch = 0;                   ///< From 1.
  std::optional<std::int64_t> steps_in_epoch = {};  ///< Nullopt if the loader does not know.
  bool ends_epoch = false;                          ///< True for the last point of its epoch.
};

class Screen;

/// On a terminal: one line for each finished epoch, and below it a bar, narrower than the terminal, which the
/// destructor erases. Output of the program in the meantime, by print() or to std::cout and std::cerr, appears above
/// the bar: these streams, if they are terminals, write through this object while it lives. Without a terminal: one
/// line for each report, "epoch 1/3, step 50: train_loss 0.6931", and the position after line_every_ms without a line.
class LOCKSTEP_API Progress {
 public:
  explicit Progress(const ProgressOptions& options);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void step(const ProgressPoint& at);
  /// Validation time does not count in the steps per second.
  void begin_validation();
  /// After a validation batch, counted from 1.
  void validation(const ProgressPoint& at, std::int64_t batch, std::optional<std::int64_t> batches = {});
  void end_validation();  ///< The bar shows training again.
  /// Shows metrics of the point `at` or of an earlier point.
  void report(const ProgressPoint& at, std::span<const History::Value> values);
  /// Prints a line of its own, on a terminal or not.
  void note(const std::string& text);

 private:
  using Clock = std::chrono::steady_clock;

  bool is_due() const;
  void show(std::string line);
  double seconds_of_steps() const;
  /// Time left of the whole run; nullopt if it cannot be estimated.
  std::optional<double> seconds_left(const ProgressPoint& at) const;

  std::unique_ptr<Screen> screen_;
  Clock::duration refresh_, line_every_;
  std::optional<Clock::time_point> drawn_;  // when the bar was drawn, if it is on the screen
  Clock::time_point start_ = Clock::now();
  Clock::time_point line_ = start_;  // when the last line was written
  std::int64_t steps_ = 0;           // since start_
  Clock::time_point validation_start_;
  double validation_seconds_ = 0;
  std::int64_t validations_ = 0;
  std::string values_;  // the last reported metrics, as text
};

}  // namespace lockstep::train
