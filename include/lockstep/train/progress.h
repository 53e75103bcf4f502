// Progress of training, for people: a bar on a terminal, plain lines elsewhere. One thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <iostream>
#include <optional>
#include <span>
#include <string>

#include <lockstep/train/history.h>

namespace lockstep::train {

struct ProgressOptions {
  std::ostream* out = &std::cout;          ///< Null: silent.
  std::optional<int> terminal_width = {};  ///< Columns; 0: not a terminal. Else found out for std::cout and std::cerr.
  int refresh_ms = 100;                    ///< The bar is drawn again after this time at the earliest.
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

/// A terminal shows one line for each epoch that has ended, and a bar below, which is narrower than the terminal, and
/// is erased when this goes. Elsewhere there is one line for each report: "epoch 1/3, step 50: train_loss 0.6931".
class LOCKSTEP_API Progress {
 public:
  explicit Progress(const ProgressOptions& options);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void step(const ProgressPoint& at);
  /// Values that came to be known, of that point or of one before it.
  void report(const ProgressPoint& at, std::span<const History::Value> values);
  /// A line of its own, everywhere.
  void note(const std::string& text);

 private:
  using Clock = std::chrono::steady_clock;

  void draw(const ProgressPoint& at);
  void erase();

  std::ostream* out_;
  int width_;
  Clock::duration refresh_;
  std::optional<Clock::time_point> drawn_;  // when the bar was, if it is there
  Clock::time_point start_ = Clock::now();
  std::int64_t steps_ = 0;  // since start_
  std::string values_;      // last reported
};

}  // namespace lockstep::train
