// Jobs that lose a process, or whose processes do not make the same calls. All other processes end within the time
// limit, and each names the process to blame and its host; mpirun's exit status is not 0.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/text.h"
#include "mpi/launch.h"
#include "support/repetitions.h"

namespace lockstep::testing {
namespace {

using std::chrono::milliseconds;

constexpr int kLimitMs = 2000;
// Allowed for starting a job and joining, and for mpirun to end it.
constexpr int kStartMs = 5000;

class MpiFailure : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!is_mpirun_there()) GTEST_SKIP() << "no mpirun";
  }

  static Outcome start(int count, const std::vector<std::string>& words,
                       const std::function<void(const std::string&)>& on_line = {}) {
    std::vector<std::string> all = {"-x", text("LOCKSTEP_TIME_LIMIT=", kLimitMs / 1000), "-n", text(count),
                                    LOCKSTEP_MPI_JOB};
    all.insert(all.end(), words.begin(), words.end());
    return mpirun(all, on_line);
  }

  // Expects that all other processes name `victim`.
  static void expect_named(const Outcome& job, int count, int victim, const std::string& how = "") {
    EXPECT_TRUE(job.ended_in_time) << job.output;
    EXPECT_NE(job.status, 0) << job.output;
    EXPECT_LT(job.took, milliseconds(kStartMs + kLimitMs)) << job.output;
    const std::string who = text("process ", victim, " on ");
    for (int p = 0; p < count; ++p) {
      if (p == victim) continue;
      const std::string waited = text("process ", p, " on ");
      bool says = false;
      for (const std::string& line : job.lines_with(who))
        says = says || (line.find(waited) != std::string::npos && line.find(how) != std::string::npos);
      EXPECT_TRUE(says) << "process " << p << " does not blame " << victim << ":\n" << job.output;
    }
  }

  // Runs a job in which `victim` gets the signal when `after` has passed since all have joined.
  static Outcome with_signal(int count, const std::vector<std::string>& words, int victim, int signal,
                             milliseconds after) {
    std::map<int, pid_t> processes;
    std::thread killer;
    const Outcome job = start(count, words, [&](const std::string& line) {
      const std::size_t at = line.find("] pid ");
      if (line.empty() || line[0] != '[' || at == std::string::npos) return;
      processes[std::stoi(line.substr(1))] = std::stoi(line.substr(at + 6));
      if (int(processes.size()) < count) return;
      killer = std::thread([pid = processes[victim], signal, after] {
        std::this_thread::sleep_for(after);
        ::kill(pid, signal);
      });
    });
    if (killer.joinable()) killer.join();
    EXPECT_EQ(int(processes.size()), count) << job.output;
    return job;
  }
};

TEST_F(MpiFailure, OfAProcessThatIsKilledEndsAllOthers) {
  side_by_side(repetitions(20), [](int trial) {
    std::mt19937 random(unsigned(trial) + 1);
    const int count = 2 + trial % 2, victim = int(random() % unsigned(count));
    const milliseconds after(random() % 200);
    SCOPED_TRACE(text("trial ", trial, ": process ", victim, " of ", count, " after ", after.count(), " ms"));
    expect_named(with_signal(count, {"loops"}, victim, SIGKILL, after), count, victim);
  });
}

TEST_F(MpiFailure, OfAProcessThatHangsEndsAllOthers) {
  for (const int victim : {0, 1}) {
    const Outcome job = with_signal(3, {"loops"}, victim, SIGSTOP, milliseconds(50));
    expect_named(job, 3, victim);
    EXPECT_GT(job.took, milliseconds(kLimitMs - kLimitMs / 5));
  }
}

TEST_F(MpiFailure, OfAProcessThatNobodyWaitsForIsNoticed) {
  expect_named(with_signal(3, {"computes"}, 1, SIGKILL, milliseconds(50)), 3, 1, "[SIGTERM]");
}

TEST_F(MpiFailure, NamesWhatWasWaitedFor) {
  const std::string barrier = "[the barrier that one does not come to] failed on rank 1";
  expect_named(with_signal(3, {"waits", "1"}, 1, SIGKILL, milliseconds(50)), 3, 1, barrier);
  expect_named(start(3, {"waits", "1"}), 3, 1, "did not reach the barrier that one does not come to within 2000 ms");
}

TEST_F(MpiFailure, OfAProcessThatLeavesEarlyEndsAllOthers) {
  for (const std::string way : {"leaves", "exits_early"})
    for (const int victim : {0, 1, 2}) expect_named(start(3, {way, text(victim), "20"}), 3, victim, "has left the job");
}

TEST_F(MpiFailure, OfAProcessThatThrowsEndsAllOthers) {
  for (const int victim : {0, 2})
    expect_named(start(3, {"throws", text(victim), "20"}), 3, victim, "was ended by an exception");
}

TEST_F(MpiFailure, OfAProcessThatEndsWithoutAWordEndsAllOthers) {
  for (const std::string way : {"terminates", "ends_without_a_word"})
    for (const int victim : {0, 1}) expect_named(start(3, {way, text(victim), "20"}), 3, victim);
}

TEST_F(MpiFailure, ThatAProcessReportsReachesAllOthers) {
  expect_named(start(3, {"gives_up", "1", "20"}), 3, 1, "a card was lost");
}

TEST_F(MpiFailure, OfAMessageThatWasGivenUpEndsAll) {
  expect_named(start(2, {"drops_a_message", "1", "20"}), 2, 1, "abandoned a message from process 0");
}

TEST_F(MpiFailure, BySigtermToOneProcessNamesIt) {
  expect_named(with_signal(3, {"loops"}, 1, SIGTERM, milliseconds(50)), 3, 1, "was ended by SIGTERM");
}

}  // namespace
}  // namespace lockstep::testing
