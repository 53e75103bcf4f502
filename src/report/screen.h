// Screen: prints lines, and on a terminal keeps a progress bar below them. The program's own output appears above the
// bar. Any thread may print; the other functions are for one thread.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>
#include <vector>

#include "core/bottom_line.h"

namespace lockstep::train {

class Screen final : BottomLine {
 public:
  using Clock = std::chrono::steady_clock;

  /// `out`: null means silent. `width`: columns of the terminal, 0 if `out` is not a terminal; by default the terminal
  /// is asked. If another Screen of this process draws already, this one draws no bar. In any period of ten times
  /// `refresh`, the bar is written at most ten times.
  Screen(std::ostream* out, std::optional<int> width, Clock::duration refresh);
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  bool has_bar() const noexcept { return has_bar_; }
  bool is_silent() const noexcept { return !out_; }
  /// Prints a whole line in place of the bar.
  void line(const std::string& text);
  /// Replaces the bar, if the text differs, cut to the terminal's width.
  void draw_bar(std::string text);
  void erase_bar();

 private:
  class Redirected;

  void clear_line() override;
  void redraw(std::string_view text) override;
  void write_bar();
  bool may_write();
  std::unique_lock<std::mutex> locked() const;
  std::ostream& out() { return direct_ ? *direct_ : *out_; }

  std::ostream* const out_;
  const std::optional<int> width_;
  const Clock::duration refresh_;
  bool has_bar_ = false;
  std::vector<std::unique_ptr<Redirected>> redirected_;
  std::optional<std::ostream> direct_;  // writes past the redirection of out_
  std::string bar_;
  std::string shown_;                      // the text that the terminal shows of bar_
  std::deque<Clock::time_point> written_;  // times of the latest writes of the bar
  bool is_drawn_ = false;
  bool at_line_start_ = true;  // the program's output ends with a line end
};

}  // namespace lockstep::train
