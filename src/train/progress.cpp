#include <lockstep/train/progress.h>

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "core/text.h"

namespace lockstep::train {
namespace {

constexpr int kBarWidth = 24;
constexpr const char* kErase = "\r\x1b[K";  // to the beginning of the line, and erase to its end: ECMA-48

int terminal_width(const std::ostream& out) {
  const int file = &out == &std::cout ? STDOUT_FILENO : &out == &std::cerr ? STDERR_FILENO : -1;
  if (file < 0 || !isatty(file)) return 0;
  winsize size = {};
  return ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string short_number(double value) {
  char digits[32];
  return {digits, std::to_chars(digits, std::end(digits), value, std::chars_format::general, 4).ptr};
}

std::string listed(std::span<const History::Value> values) {
  std::string list;
  for (const History::Value& value : values)
    list += text(list.empty() ? "" : ", ", value.column, ' ', short_number(value.value));
  return list;
}

}  // namespace

Progress::Progress(const ProgressOptions& options)
    : out_(options.out),
      width_(out_ ? options.terminal_width.value_or(terminal_width(*out_)) : 0),
      refresh_(std::chrono::milliseconds(options.refresh_ms)) {}

Progress::~Progress() {
  try {
    erase();
  } catch (...) {  // a stream may be set to throw
  }
}

void Progress::step(const ProgressPoint& at) {
  ++steps_;
  if (width_ > 0 && (!drawn_ || Clock::now() - *drawn_ >= refresh_)) draw(at);
}

void Progress::report(const ProgressPoint& at, std::span<const History::Value> values) {
  if (!values.empty()) values_ = listed(values);
  if (width_ > 0 ? at.ends_epoch : !values.empty())
    note(text("epoch ", at.epoch, '/', at.epochs, ", step ", at.step, ": ", values_));
}

void Progress::note(const std::string& line) {
  if (!out_) return;
  erase();
  *out_ << line + '\n' << std::flush;
}

void Progress::draw(const ProgressPoint& at) {
  std::string line = text("epoch ", at.epoch, '/', at.epochs);
  if (at.steps_in_epoch.value_or(0) > 0) {
    const double part = std::min(1., double(at.step_in_epoch) / double(*at.steps_in_epoch));
    const auto filled = std::size_t(part * kBarWidth);
    line += text(" [", std::string(filled, '#'), std::string(kBarWidth - filled, '.'), "] ", at.step_in_epoch, '/',
                 *at.steps_in_epoch);
  } else {
    line += text(", step ", at.step);
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  if (seconds > 0) line += text(", ", short_number(double(steps_) / seconds), " steps/s");
  if (!values_.empty()) line += ", " + values_;
  std::size_t end = std::min(line.size(), std::size_t(width_ - 1));  // the last column would wrap on some terminals
  while (end > 0 && end < line.size() && (line[end] & 0xC0) == 0x80) --end;  // not inside a character of UTF-8
  line.resize(end);
  *out_ << kErase + line << std::flush;
  drawn_ = Clock::now();
}

void Progress::erase() {
  if (drawn_) *out_ << kErase << std::flush;
  drawn_.reset();
}

}  // namespace lockstep::train
