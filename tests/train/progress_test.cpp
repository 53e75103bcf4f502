// Progress: a bar that fits its terminal and goes away; whole lines elsewhere.
#include <lockstep/train/progress.h>

#include <gtest/gtest.h>

#include <sstream>

namespace lockstep::train {
namespace {

using Values = std::vector<History::Value>;

// The lines of a terminal of unbounded width after `text`, which has no other escapes than \r and "erase to the end".
std::vector<std::string> screen(const std::string& text) {
  std::vector<std::string> lines(1);
  std::size_t column = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r') {
      column = 0;
    } else if (text.compare(i, 3, "\x1b[K") == 0) {
      lines.back().resize(std::min(lines.back().size(), column));
      i += 2;
    } else if (text[i] == '\n') {
      lines.emplace_back();
      column = 0;
    } else {
      lines.back().resize(std::max(lines.back().size(), column + 1));
      lines.back()[column++] = text[i];
    }
  }
  return lines;
}

// The line without the number, of at least a digit, that stands before `unit`.
std::string without_number(std::string line, const std::string& unit) {
  const std::size_t end = line.find(unit);
  if (end == std::string::npos) return line;
  const std::size_t begin = line.find_last_not_of("0123456789.e+", end - 1) + 1;
  return begin == end ? "no number in: " + line : line.erase(begin, end - begin);
}

TEST(Progress, DrawsABarThatGoesAway) {
  std::ostringstream out;
  {
    Progress progress({.out = &out, .terminal_width = 100, .refresh_ms = 0});
    ProgressPoint at{.epoch = 2, .epochs = 3, .step = 5, .step_in_epoch = 1, .steps_in_epoch = 4};
    progress.step(at);
    EXPECT_EQ(without_number(screen(out.str()).back(), " steps/s"),
              "epoch 2/3 [######..................] 1/4,  steps/s");
    progress.report(at, Values{{"train_loss", 0.5}});
    at.step_in_epoch = 4;
    progress.step(at);
    EXPECT_EQ(without_number(screen(out.str()).back(), " steps/s"),
              "epoch 2/3 [########################] 4/4,  steps/s, train_loss 0.5");
    at.ends_epoch = true;
    progress.report(at, Values{{"train_loss", 0.25}});
    progress.step(at);
  }
  EXPECT_EQ(screen(out.str()), (std::vector<std::string>{"epoch 2/3, step 5: train_loss 0.25", ""}));
}

TEST(Progress, StaysWithinANarrowTerminal) {
  std::ostringstream out;
  Progress progress({.out = &out, .terminal_width = 30, .refresh_ms = 0});
  progress.step({.epoch = 1, .epochs = 1, .step = 3, .step_in_epoch = 3, .steps_in_epoch = 1000});
  EXPECT_EQ(screen(out.str()).back().size(), 29u);
}

TEST(Progress, CutsBetweenCharacters) {
  for (int width = 60; width < 80; ++width) {
    std::ostringstream out;
    Progress progress({.out = &out, .terminal_width = width, .refresh_ms = 0});
    const ProgressPoint at = {.epoch = 1, .epochs = 1, .step = 3, .step_in_epoch = 3, .steps_in_epoch = 10};
    progress.report(at, Values{{"\u043f\u0440\u0438\u043c\u0435\u0440", 0.5}});
    progress.step(at);
    const std::string line = screen(out.str()).back();
    std::size_t leading = 0, following = 0;  // every letter of that name has one byte of each kind
    for (const char c : line) {
      leading += (c & 0xE0) == 0xC0;
      following += (c & 0xC0) == 0x80;
    }
    EXPECT_EQ(leading, following) << "width " << width;
  }
}

TEST(Progress, DrawsTheBarSeldom) {
  std::ostringstream out;
  Progress progress({.out = &out, .terminal_width = 80, .refresh_ms = 3'600'000});
  for (int i = 1; i < 1000; ++i) progress.step({.epoch = 1, .epochs = 1, .step = i, .step_in_epoch = i});
  const std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\r'), 1);
}

TEST(Progress, WritesPlainLinesElsewhere) {
  std::ostringstream out;
  {
    Progress progress({.out = &out});
    progress.step({.epoch = 1, .epochs = 3, .step = 1});
    progress.report({.epoch = 1, .epochs = 3, .step = 50}, Values{{"train_loss", 1. / 3}, {"train_accuracy", 1}});
    progress.report({.epoch = 1, .epochs = 3, .step = 50, .ends_epoch = true}, Values{});
    progress.note("done");
  }
  EXPECT_EQ(out.str(), "epoch 1/3, step 50: train_loss 0.3333, train_accuracy 1\ndone\n");
}

TEST(Progress, CanBeSilent) {
  Progress progress({.out = nullptr, .terminal_width = 80});
  progress.step({});
  progress.report({}, Values{{"train_loss", 1}});
  progress.note("done");
}

}  // namespace
}  // namespace lockstep::train
