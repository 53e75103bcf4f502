// Progress: a bar that fits its terminal and is erased at the end; whole lines elsewhere.
#include <lockstep/train/progress.h>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <mutex>
#include <sstream>
#include <thread>

#include <lockstep/core/print.h>

#include "report/terminal_width.h"
#include "train/terminal.h"

namespace lockstep::train {
namespace {

using testing::screen;
using testing::Terminal;
using Values = std::vector<History::Value>;
using Lines = std::vector<std::string>;

// Returns the line without the numbers before these units; each must have a digit.
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

ProgressPoint third_of_ten() { return {.epoch = 1, .epochs = 1, .step = 3, .step_in_epoch = 3, .steps_in_epoch = 10}; }

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
    std::size_t leading = 0, following = 0;  // every letter of that name has one lead byte and one continuation byte
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

std::size_t bars_in(const std::string& text) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find("\x1b[Kepoch", at)) != text.npos; ++at) ++count;
  return count;
}

// Ten refresh intervals are an hour here.
TEST(Progress, DrawsTheBarTenTimesAtMostInTenRefreshesWhateverIsPrinted) {
  Terminal terminal(60);
  {
    Progress progress({.refresh_ms = 360'000});
    progress.step(third_of_ten());
    for (int i = 0; i < 100; ++i) std::cout << "line " << i << '\n';
    for (int i = 0; i < 100; ++i) {
      progress.note("note");
      progress.step(third_of_ten());
    }
  }
  const std::string text = terminal.finish();
  EXPECT_EQ(bars_in(text), 10u);
  EXPECT_EQ(screen(text).size(), 201u);
}

TEST(Progress, WritesABarOnlyIfItHasChanged) {
  std::ostringstream out;
  // no room for the parts that change with time
  Progress progress({.out = &out, .terminal_width = 30, .refresh_ms = 0});
  ProgressPoint at = third_of_ten();
  at.steps_in_epoch = 1000;
  for (int i = 0; i < 50; ++i) progress.step(at);
  EXPECT_EQ(bars_in(out.str()), 1u);
  at.epoch = 2, at.epochs = 2;
  progress.step(at);
  EXPECT_EQ(bars_in(out.str()), 2u);
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

TEST(Progress, SaysElsewhereFromTimeToTimeWhereTrainingStands) {
  std::ostringstream out;
  {
    Progress progress({.out = &out, .line_every_ms = 1});
    const auto wait = [] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); };
    wait();
    progress.step({.epoch = 2, .epochs = 3, .step = 13, .step_in_epoch = 3, .steps_in_epoch = 10});
    progress.report({.epoch = 2, .epochs = 3, .step = 13}, Values{{"train_loss", 0.5}});
    wait();
    progress.step({.epoch = 2, .epochs = 3, .step = 14, .step_in_epoch = 4});
    wait();
    progress.begin_validation();
    progress.validation({.epoch = 2, .epochs = 3, .step = 14}, 3, 4);
    progress.end_validation();
  }
  const Lines lines = screen(out.str());
  ASSERT_EQ(lines.size(), 5u) << out.str();
  EXPECT_EQ(without_numbers(lines[0]), "epoch 2/3, step 13 (3/10),  steps/s,  left");
  EXPECT_EQ(lines[1], "epoch 2/3, step 13: train_loss 0.5");
  EXPECT_EQ(lines[2].substr(0, 19), "epoch 2/3, step 14,");
  EXPECT_EQ(lines[3], "epoch 2/3, validation, batch 3/4, train_loss 0.5");
}

TEST(Progress, SaysNothingElsewhereBetweenReportsThatAreNear) {
  for (const int line_every_ms : {0, 3'600'000}) {
    std::ostringstream out;
    Progress progress({.out = &out, .line_every_ms = line_every_ms});
    for (int i = 1; i < 100; ++i) progress.step({.epoch = 1, .epochs = 1, .step = i, .step_in_epoch = i});
    EXPECT_EQ(out.str(), "");
  }
}

// A child process whose standard output is `output`, while this lives.
class Launcher {
 public:
  explicit Launcher(int output) : process_(::fork()) {
    if (process_ != 0) return;
    ::dup2(output, STDOUT_FILENO);
    for (;;) ::pause();
  }
  ~Launcher() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  // The width of standard output's terminal, with this child in the role of the launcher that created it.
  int width() const {
    while (!has_own_output()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return launcher_terminal_width(STDOUT_FILENO, process_);
  }

 private:
  // True once the child has called dup2().
  bool has_own_output() const {
    struct stat own = {}, other = {};
    ::fstat(STDOUT_FILENO, &own);
    ::stat(("/proc/" + std::to_string(process_) + "/fd/1").c_str(), &other);
    return own.st_ino != other.st_ino || own.st_dev != other.st_dev;
  }

  pid_t process_;
};

// mpirun gives each process a pseudo-terminal, and copies its output to wherever mpirun's own output goes.
TEST(Progress, AsksTheLauncherThatMadeItsTerminalWhereItsOutputLeads) {
  Terminal own(60);
  const int file = ::open("/dev/null", O_WRONLY);
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_TRUE(::grantpt(master) == 0 && ::unlockpt(master) == 0);
  const int other_terminal = ::open(::ptsname(master), O_RDWR | O_NOCTTY);
  const winsize size = {.ws_row = 24, .ws_col = 50, .ws_xpixel = 0, .ws_ypixel = 0};
  ::ioctl(master, TIOCSWINSZ, &size);
  EXPECT_EQ(Launcher(file).width(), 0);
  EXPECT_EQ(Launcher(pipe_ends[1]).width(), 0);
  EXPECT_EQ(Launcher(other_terminal).width(), 50);
  EXPECT_EQ(terminal_width(STDOUT_FILENO), 60);
  for (const int descriptor : {file, pipe_ends[0], pipe_ends[1], other_terminal, master}) ::close(descriptor);
}

TEST(Progress, CanBeSilent) {
  Progress progress({.out = nullptr, .terminal_width = 80});
  progress.step({});
  progress.report({}, Values{{"train_loss", 1}});
  progress.note("done");
}

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

// Ten steps of at least 2 ms each, then a validation of 1000 ms.
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
