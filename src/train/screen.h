// Screen: lines, and below them a bar where there is a terminal. What the program prints goes between. Safe to print
// from any thread; the rest is one thread's.
#pragma once

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
  /// Null: silent. `width`: of the terminal, 0 for none; asked of the terminal, if not given. Where another Screen has
  /// the terminal, this one has no bar.
  Screen(std::ostream* out, std::optional<int> width);
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  bool has_bar() const noexcept { return has_bar_; }
  /// A whole line, in place of the bar.
  void line(const std::string& text);
  /// In place of the one before, cut to the terminal's width.
  void draw_bar(std::string text);
  void erase_bar();

 private:
  class Redirected;

  void give_way() override;
  void come_back(std::string_view text) override;
  void write_bar();
  std::unique_lock<std::mutex> locked() const;
  std::ostream& out() { return direct_ ? *direct_ : *out_; }

  std::ostream* const out_;
  const std::optional<int> width_;
  bool has_bar_ = false;
  std::vector<std::unique_ptr<Redirected>> redirected_;
  std::optional<std::ostream> direct_;  // to where out_ leads but for this
  std::string bar_;
  bool is_drawn_ = false;
  bool at_line_start_ = true;  // but for the bar
};

}  // namespace lockstep::train
