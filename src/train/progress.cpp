#include <lockstep/train/progress.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/digits.h"
#include "core/text.h"
#include "report/screen.h"

namespace lockstep::train {
namespace {

constexpr int kBarWidth = 24;

std::string short_number(double value) { return digits_of(value, std::chars_format::general, 4); }

std::string listed(std::span<const History::Value> values) {
  std::string list;
  for (const History::Value& value : values)
    list += text(list.empty() ? "" : ", ", value.column, ' ', short_number(value.value));
  return list;
}

// "1:02:03", or "2:03" below an hour.
std::string clock_time(double seconds) {
  const auto whole = std::int64_t(std::min(std::round(seconds), 1e12));
  char digits[48];
  if (whole >= 3600)
    std::snprintf(digits, sizeof digits, "%lld:%02d:%02d", static_cast<long long>(whole / 3600), int(whole / 60 % 60),
                  int(whole % 60));
  else
    std::snprintf(digits, sizeof digits, "%d:%02d", int(whole / 60), int(whole % 60));
  return digits;
}

std::string bar_of(std::int64_t done, std::int64_t all) {
  const auto filled = std::size_t(std::min(1., double(done) / double(all)) * kBarWidth);
  return text(" [", std::string(filled, '#'), std::string(kBarWidth - filled, '.'), "] ", done, '/', all);
}

}  // namespace

Progress::Progress(const ProgressOptions& options)
    : screen_(
          std::make_unique<Screen>(options.out, options.terminal_width, std::chrono::milliseconds(options.refresh_ms))),
      refresh_(std::chrono::milliseconds(options.refresh_ms)),
      line_every_(std::chrono::milliseconds(options.line_every_ms)) {}

Progress::~Progress() = default;

void Progress::step(const ProgressPoint& at) {
  ++steps_;
  if (!is_due()) return;
  std::string line = text("epoch ", at.epoch, '/', at.epochs);
  const bool knows_end = at.steps_in_epoch.value_or(0) > 0;
  if (knows_end && screen_->has_bar())
    line += bar_of(at.step_in_epoch, *at.steps_in_epoch);
  else
    line += text(", step ", at.step, knows_end ? text(" (", at.step_in_epoch, '/', *at.steps_in_epoch, ')') : "");
  if (const double seconds = seconds_of_steps(); seconds > 0)
    line += text(", ", short_number(double(steps_) / seconds), " steps/s");
  if (const auto left = seconds_left(at)) line += text(", ", clock_time(*left), " left");
  show(std::move(line));
}

void Progress::begin_validation() { validation_start_ = Clock::now(); }

void Progress::validation(const ProgressPoint& at, std::int64_t batch, std::optional<std::int64_t> batches) {
  if (!is_due()) return;
  std::string line = text("epoch ", at.epoch, '/', at.epochs, ", validation");
  const bool knows_end = batches.value_or(0) > 0;
  if (knows_end && screen_->has_bar())
    line += bar_of(batch, *batches);
  else
    line += text(", batch ", batch, knows_end ? text('/', *batches) : "");
  show(std::move(line));
}

void Progress::end_validation() {
  validation_seconds_ += std::chrono::duration<double>(Clock::now() - validation_start_).count();
  ++validations_;
}

void Progress::report(const ProgressPoint& at, std::span<const History::Value> values) {
  if (!values.empty()) values_ = listed(values);
  if (screen_->has_bar() ? at.ends_epoch : !values.empty())
    note(text("epoch ", at.epoch, '/', at.epochs, ", step ", at.step, ": ", values_));
}

void Progress::note(const std::string& line) {
  screen_->line(line);
  drawn_.reset();
  line_ = Clock::now();
}

bool Progress::is_due() const {
  if (screen_->has_bar()) return !drawn_ || Clock::now() - *drawn_ >= refresh_;
  return !screen_->is_silent() && line_every_ > Clock::duration() && Clock::now() - line_ >= line_every_;
}

void Progress::show(std::string line) {
  if (!values_.empty()) line += ", " + values_;
  if (!screen_->has_bar()) return note(line);
  screen_->draw_bar(std::move(line));
  drawn_ = Clock::now();
}

double Progress::seconds_of_steps() const {
  return std::chrono::duration<double>(Clock::now() - start_).count() - validation_seconds_;
}

std::optional<double> Progress::seconds_left(const ProgressPoint& at) const {
  if (!at.steps_in_epoch || steps_ == 0) return {};
  const std::int64_t epochs = at.epochs - at.epoch;  // after the current one
  const auto steps = double(epochs * *at.steps_in_epoch + *at.steps_in_epoch - at.step_in_epoch);
  const double validation = validations_ == 0 ? 0 : validation_seconds_ / double(validations_);
  return steps * seconds_of_steps() / double(steps_) + double(epochs + 1) * validation;
}

}  // namespace lockstep::train
