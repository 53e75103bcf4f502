// Progress: a bar that fits its terminal and goes away; whole lines elsewhere.
#include <lockstep/train/progress.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <sstream>
#include <thread>

#include <lockstep/core/print.h>

#include "train/terminal.h"

namespace lockstep::train {
namespace {

using testing::screen;
using testing::Terminal;
using Values = std::vector<History::Value>;
using Lines = std::vector<std::string>;

// The line without the numbers, of at least a digit, that stand before these units.
std::string without_numbers(std::string line) {
  for (const std::string unit : {" steps/s", " left"}) {
    const std::size_t end = line.find(unit);
    if (end == std::string::npos) return "no" + unit + " in: " + line;
    const std::size_t begin = line.find_last_not_of("0123456789.e+:-", end - 1) + 1;
    if (begin == end) return "no number in: " + line;
    line.erase(begin, end - begin);
  }
  return line;
}

TEST(Progress, DrawsABarThatGoesAway) {
  std::ostringstream out;
  {
    Progress progress({.out = &out, .terminal_width = 100, .refresh_ms = 0});
    ProgressPoint at{.epoch = 2, .epochs = 3, .step = 5, .step_in_epoch = 1, .steps_in_epoch = 4};
    progress.step(at);
    EXPECT_EQ(without_numbers(screen(out.str()).back()), "epoch 2/3 [######..................] 1/4,  steps/s,  left");
    progress.report(at, Values{{"train_loss", 0.5}});
    at.step_in_epoch = 4;
    progress.step(at);
    EXPECT_EQ(without_numbers(screen(out.str()).back()),
              "epoch 2/3 [########################] 4/4,  steps/s,  left, train_loss 0.5");
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

ProgressPoint third_of_ten() { return {.epoch = 1, .epochs = 1, .step = 3, .step_in_epoch = 3, .steps_in_epoch = 10}; }

TEST(Progress, ShowsHowFarValidationIs) {
  std::ostringstream out;
  Progress progress({.out = &out, .terminal_width = 100, .refresh_ms = 0});
  progress.begin_validation();
  progress.validation(third_of_ten(), 3, 4);
  EXPECT_EQ(screen(out.str()).back(), "epoch 1/1, validation [##################......] 3/4");
  progress.validation(third_of_ten(), 3);
  EXPECT_EQ(screen(out.str()).back(), "epoch 1/1, validation, batch 3");
  progress.end_validation();
}

double number_before(const std::string& line, const std::string& unit) {
  const std::size_t end = line.find(unit), begin = line.rfind(", ", end);
  return std::stod(line.substr(begin + 2, end - begin - 2));
}

// Ten steps of 2 ms at least, and as much time again for validation.
TEST(Progress, LeavesValidationOutOfTheStepsPerSecondAndCountsItInTheTimeLeft) {
  std::ostringstream out;
  Progress progress({.out = &out, .terminal_width = 100, .refresh_ms = 0});
  const auto pause = [](int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); };
  ProgressPoint at = {.epoch = 1, .epochs = 101, .steps_in_epoch = 10};
  for (; at.step_in_epoch < 10; progress.step(at)) ++at.step_in_epoch, pause(2);
  const double before = number_before(screen(out.str()).back(), " steps/s");
  progress.begin_validation();
  pause(1000);
  progress.end_validation();
  at.epoch = 2, at.step_in_epoch = 1;
  progress.step(at);
  const std::string line = screen(out.str()).back();
  EXPECT_GT(number_before(line, " steps/s"), before / 2) << "with the pause it would be a tenth of it, or less";
  const std::size_t end = line.find(" left"), begin = line.rfind(", ", end) + 2;
  EXPECT_EQ(line[end - 3], ':') << line;
  EXPECT_GE(std::stod(line.substr(begin)), 1) << "minutes: 100 validations of a second are to come. " << line;
}

TEST(Progress, MakesWayForWhatIsPrinted) {
  Terminal terminal(60);
  {
    Progress progress({.refresh_ms = 0});
    progress.step(third_of_ten());
    print("printed {}\n", 1);
    std::cout << "to cout " << 2 << std::endl;
    progress.step(third_of_ten());
    std::cerr << "to cerr " << 3 << '\n';
    std::cout << "no end";
    progress.step(third_of_ten());  // no place for a bar
    std::cout << " yet\n";
  }
  std::cout << "afterwards\n";
  const std::string text = terminal.finish();
  EXPECT_EQ(screen(text), (Lines{"printed 1", "to cout 2", "to cerr 3", "no end yet", "afterwards", ""}));
  const std::string bar = "[#######.................] 3/10";
  EXPECT_NE(text.find("printed 1"), text.npos);
  EXPECT_LT(text.find(bar), text.find("printed 1"));
  for (const char* line : {"printed 1", "to cout 2", "to cerr 3", " yet"}) {
    const std::size_t begin = text.find(line), next = text.find(bar, begin);
    EXPECT_LT(next, text.find('\n', text.find('\n', begin) + 1)) << "the bar comes back below " << line;
  }
}

TEST(Progress, EndsALineThatWasBegunBeforeItsOwn) {
  Terminal terminal(60);
  {
    Progress progress({.refresh_ms = 0});
    std::cout << "begun";
    progress.note("a note");
  }
  EXPECT_EQ(screen(terminal.finish()), (Lines{"begun", "a note", ""}));
}

TEST(Progress, FollowsTheWidthOfTheTerminal) {
  Terminal terminal(50);
  {
    Progress progress({.refresh_ms = 0});
    progress.report(third_of_ten(), Values{{"train_a_metric_with_a_name_that_takes_much_room", 0.5}});
    for (const int columns : {50, 20, 70}) {
      terminal.resize(columns);
      progress.step(third_of_ten());
    }
  }
  const std::string text = terminal.finish();
  std::vector<std::size_t> widths;
  for (std::size_t at = text.find("\x1b[K"); at != text.npos;) {
    const std::size_t next = text.find("\r\x1b[K", at + 3);
    widths.push_back(std::min(next, text.size()) - at - 3);
    at = next == text.npos ? next : next + 1;
  }
  EXPECT_EQ(widths, (std::vector<std::size_t>{49, 19, 69, 0}));
}

TEST(Progress, KeepsLinesOfOtherThreadsWhole) {
  Terminal terminal(80);
  {
    Progress progress({.refresh_ms = 0});
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t)
      threads.emplace_back([t] {
        for (int i = 0; i < 100; ++i) print("thread {} line {}\n", t, i);
      });
    for (int i = 0; i < 100; ++i) progress.step(third_of_ten());
    for (std::thread& thread : threads) thread.join();
  }
  Lines lines = screen(terminal.finish());
  EXPECT_EQ(lines.back(), "");
  lines.pop_back();
  Lines expected;
  for (int t = 0; t < 3; ++t)
    for (int i = 0; i < 100; ++i) expected.push_back("thread " + std::to_string(t) + " line " + std::to_string(i));
  std::ranges::sort(lines);
  std::ranges::sort(expected);
  EXPECT_EQ(lines, expected);
}

}  // namespace
}  // namespace lockstep::train
