// KilledChild: runs this test program again in a child process that will be killed. The child runs one disabled test,
// which reports numbers.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

extern char** environ;

namespace lockstep::testing {

class KilledChild {
 public:
  /// Starts the child, which runs `test` and gets `folder` from KilledChild::folder().
  KilledChild(const std::string& test, const std::filesystem::path& folder) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    reports_ = ends[0];
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], kReportDescriptor);
    ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    std::vector<std::string> arguments = {"killed", "--gtest_filter=" + test, "--gtest_also_run_disabled_tests"};
    std::vector<std::string> variables = {"LOCKSTEP_KILLED_FOLDER=" + folder.string()};
    for (char** variable = environ; *variable; ++variable)
      if (!std::string_view(*variable).starts_with("GTEST_")) variables.emplace_back(*variable);
    const int error = ::posix_spawn(&process_, "/proc/self/exe", &actions, nullptr, pointers(arguments).data(),
                                    pointers(variables).data());
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    if (error != 0) throw std::runtime_error("posix_spawn");
  }
  ~KilledChild() {
    if (process_ > 0) kill(0);
  }
  KilledChild(const KilledChild&) = delete;
  KilledChild& operator=(const KilledChild&) = delete;

  /// Waits for the next number that the child reports; -1 if the child has ended.
  std::int64_t next() {
    std::int64_t number = -1;
    return ::read(reports_, &number, sizeof number) == sizeof number ? number : -1;
  }

  /// Kills the child at once. Returns the last number that it reported, or `last` if there were no more; -1 if it had
  /// already ended.
  std::int64_t kill(std::int64_t last) {
    ::kill(process_, SIGKILL);
    int status = 0;
    ::waitpid(process_, &status, 0);
    process_ = -1;
    for (std::int64_t number = next(); number >= 0; number = next()) last = number;
    ::close(reports_);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? last : -1;
  }

  /// Called in the child.
  static std::string folder() {
    const char* folder = std::getenv("LOCKSTEP_KILLED_FOLDER");
    return folder ? folder : throw std::runtime_error("to be run by a test that kills it");
  }
  static void report(std::int64_t number) {
    if (::write(kReportDescriptor, &number, sizeof number) != sizeof number) std::_Exit(1);
  }

 private:
  static constexpr int kReportDescriptor = 100;

  static std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> all;
    for (std::string& text : texts) all.push_back(text.data());
    all.push_back(nullptr);
    return all;
  }

  pid_t process_ = -1;
  int reports_ = -1;
};

/// Chooses when to kill: after some reports, plus a random part of the time between two reports.
class KillClock {
 public:
  explicit KillClock(unsigned seed) : random_(seed) {}

  int reports() {
    previous_.reset();
    return 2 + int(random_() % 3);
  }
  void saw_report() {
    const auto now = std::chrono::steady_clock::now();
    if (previous_) between_ = std::chrono::duration<double>(now - *previous_);
    previous_ = now;
  }
  void wait_some() { std::this_thread::sleep_for(between_ * std::uniform_real_distribution<double>(0, 1.2)(random_)); }

 private:
  std::mt19937 random_;
  std::optional<std::chrono::steady_clock::time_point> previous_;
  std::chrono::duration<double> between_{0.001};
};

}  // namespace lockstep::testing
