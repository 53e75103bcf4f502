#include "report/screen.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <utility>

#include "report/terminal_width.h"

namespace lockstep::train {
namespace {

constinit bool terminal_is_taken = false;  // true while a Screen draws on it; guarded by print_mutex()

constexpr const char* kErase = "\r\x1b[K";  // to the beginning of the line, then erase to its end: ECMA-48

constexpr std::size_t kMaxWritesAtOnce = 10;  // at most this many writes of the bar in as many refresh intervals

int width_of(const std::ostream& out) {
  const int file = &out == &std::cout ? STDOUT_FILENO : &out == &std::cerr ? STDERR_FILENO : -1;
  return file < 0 ? 0 : terminal_width(file);
}

}  // namespace

// Redirects a stream so that its output passes above the bar, until destroyed. Unbuffered: passes each piece of text on
// at once.
class Screen::Redirected final : public std::streambuf {
 public:
  Redirected(Screen& screen, std::ostream& stream) : screen_(screen), stream_(stream), target_(stream.rdbuf(this)) {}
  ~Redirected() override { stream_.rdbuf(target_); }

  std::streambuf* target() const noexcept { return target_; }

 private:
  std::streamsize xsputn(const char* text, std::streamsize size) override {
    const std::scoped_lock lock(print_mutex());
    screen_.clear_line();
    const std::streamsize written = target_->sputn(text, size);
    target_->pubsync();
    screen_.redraw({text, std::size_t(size)});
    return written;
  }
  int_type overflow(int_type c) override {
    if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
    const char text = traits_type::to_char_type(c);
    return xsputn(&text, 1) == 1 ? c : traits_type::eof();
  }
  int sync() override { return target_->pubsync(); }

  Screen& screen_;
  std::ostream& stream_;
  std::streambuf* const target_;
};

// Only the first of several Screens draws; later ones print plain lines, because redirections of std::cout and
// std::cerr by two of them could not be undone in any order.
Screen::Screen(std::ostream* out, std::optional<int> width, Clock::duration refresh)
    : out_(out), width_(width), refresh_(refresh) {
  if (!out || width.value_or(width_of(*out)) <= 0) return;
  if (out != &std::cout && out != &std::cerr) {
    has_bar_ = true;
    return;
  }
  const std::scoped_lock lock(print_mutex());
  if (std::exchange(terminal_is_taken, true)) return;
  has_bar_ = true;
  for (std::ostream* stream : {&std::cout, &std::cerr}) {
    if (stream != out && width_of(*stream) == 0) continue;  // not a terminal, so its output cannot break the bar
    redirected_.push_back(std::make_unique<Redirected>(*this, *stream));
    if (stream == out) direct_.emplace(redirected_.back()->target());
    if (stream == &std::cout) set_bottom_line(this);
  }
}

Screen::~Screen() {
  try {
    erase_bar();
  } catch (...) {  // exceptions() may make a stream throw
  }
  if (redirected_.empty()) return;
  const std::scoped_lock lock(print_mutex());
  set_bottom_line(nullptr);
  redirected_.clear();
  terminal_is_taken = false;
}

// Takes no lock for a Screen without redirected streams: only one thread uses it, and its output may pass through
// another Screen, which locks print_mutex() itself.
std::unique_lock<std::mutex> Screen::locked() const {
  return redirected_.empty() ? std::unique_lock<std::mutex>() : std::unique_lock(print_mutex());
}

void Screen::line(const std::string& text) {
  if (!out_) return;
  const auto lock = locked();
  clear_line();
  bar_.clear();
  out() << (at_line_start_ ? "" : "\n") + text + '\n' << std::flush;
  at_line_start_ = true;
}

void Screen::draw_bar(std::string text) {
  const auto lock = locked();
  bar_ = std::move(text);
  write_bar();
}

void Screen::erase_bar() {
  if (!out_) return;
  const auto lock = locked();
  clear_line();
  bar_.clear();
}

void Screen::clear_line() {
  if (is_drawn_) out() << kErase << std::flush;
  is_drawn_ = false;
}

void Screen::redraw(std::string_view text) {
  if (!text.empty()) at_line_start_ = text.back() == '\n';
  write_bar();
}

// While a line of output is incomplete, the bar is not drawn; it returns with the line's end.
void Screen::write_bar() {
  if (bar_.empty() || !at_line_start_) return;
  const int width = std::max(1, width_.value_or(width_of(*out_)));
  std::size_t end = std::min(bar_.size(), std::size_t(width - 1));  // the last column would wrap on some terminals
  while (end > 0 && end < bar_.size() && (bar_[end] & 0xC0) == 0x80) --end;  // not inside a UTF-8 character
  std::string shown = bar_.substr(0, end);
  if ((is_drawn_ && shown == shown_) || !may_write()) return;
  out() << kErase + shown << std::flush;
  shown_ = std::move(shown);
  is_drawn_ = true;
}

// Limits the rate of redraws: a program that prints a lot would otherwise erase and redraw the bar every time.
bool Screen::may_write() {
  const Clock::time_point now = Clock::now();
  while (!written_.empty() && now - written_.front() >= refresh_ * kMaxWritesAtOnce) written_.pop_front();
  if (written_.size() >= kMaxWritesAtOnce) return false;
  written_.push_back(now);
  return true;
}

}  // namespace lockstep::train
