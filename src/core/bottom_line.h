// A line that stands below all that is printed, such as a bar: it gives way to what print() writes, and comes back.
#pragma once

#include <mutex>
#include <string_view>

namespace lockstep {

/// Its functions are called under print_mutex(), one at a time. They print nothing themselves.
class BottomLine {
 public:
  /// Text is about to be written.
  virtual void give_way() = 0;
  /// `text` was written.
  virtual void come_back(std::string_view text) = 0;

 protected:
  ~BottomLine() = default;
};

/// What print() writes under. Taken last, from anywhere: no other lock is taken under it.
std::mutex& print_mutex() noexcept;
/// Null: none. Returns the one that was there. To be called under print_mutex().
BottomLine* set_bottom_line(BottomLine* line) noexcept;

}  // namespace lockstep
