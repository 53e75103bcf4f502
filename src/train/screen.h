// Screen: lines, and below them a bar where there is a terminal. What the program prints goes between. Safe to print
// from any thread; the rest is one thread's.
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

  /// Null: silent. `width`: of the terminal, 0 for none; asked of the terminal, if not given. Where another Screen has
  /// the terminal, this one has no bar. In ten times `refresh` the bar is written ten times at most.
  Screen(std::ostream* out, std::optional<int> width, Clock::duration refresh);
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  bool has_bar() const noexcept { return has_bar_; }
  bool is_silent() const noexcept { return !out_; }
  /// A whole line, in place of the bar.
  void line(const std::string& text);
  /// In place of the one before, if it differs, cut to the terminal's width.
  void draw_bar(std::string text);
  void erase_bar();

 private:
  class Redirected;

  void give_way() override;
  void come_back(std::string_view text) override;
  void write_bar();
  bool may_write();
  std::unique_lock<std::mutex> locked() const;
  std::ostream& out() { return direct_ ? *direct_ : *out_; }

  std::ostream* const out_;
  const std::optional<int> width_;
  const Clock::duration refresh_;
  bool has_bar_ = false;
  std::vector<std::unique_ptr<Redirected>> redirected_;
  std::optional<std::ostream> direct_;  // to where out_ leads but for this
  std::string bar_;
  std::string shown_;                      // of it
  std::deque<Clock::time_point> written_;  // the last ones
  bool is_drawn_ = false;
  bool at_line_start_ = true;  // but for the bar
};

}  // namespace lockstep::train
