// A line that stays below all printed output, such as a progress bar: print() clears it, writes, and redraws it.
#pragma once

#include <mutex>
#include <string_view>

namespace lockstep {

/// print() calls the functions of the line while it holds print_mutex(). They must not call print().
class BottomLine {
 public:
  /// Called before text is written: clears the line.
  virtual void clear_line() = 0;
  /// Called after `text` was written: draws the line again.
  virtual void redraw(std::string_view text) = 0;

 protected:
  ~BottomLine() = default;
};

/// print() holds this mutex while it writes. It may be taken under any lock; no other lock is taken under it.
std::mutex& print_mutex() noexcept;
/// Sets the bottom line (null: no line) and returns the previous line. The caller holds print_mutex().
BottomLine* set_bottom_line(BottomLine* line) noexcept;

}  // namespace lockstep
