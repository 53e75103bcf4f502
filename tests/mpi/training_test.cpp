// Training by real processes: it ends with the same result as one process, whichever process is killed at any time, and
// can continue with another number of processes.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <lockstep/train/checkpoint_folder.h>

#include "core/text.h"
#include "io/memory_source.h"
#include "mpi/launch.h"
#include "support/repetitions.h"
#include "support/temporary_folder.h"

namespace lockstep::testing {
namespace {

using std::chrono::milliseconds;

constexpr int kDevices = 4, kTrials = repetitions(3);

class MpiTraining : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!is_mpirun_there()) GTEST_SKIP() << "no mpirun";
  }

  static Outcome train(int processes, const TemporaryFolder& folder,
                       const std::function<void(const std::string&)>& on_line = {}, const std::string& shard = "none") {
    return mpirun({"-x", "LOCKSTEP_TIME_LIMIT=5", "-n", text(processes), LOCKSTEP_MPI_JOB, "trains",
                   folder.path().string(), text(kDevices), shard},
                  on_line);
  }

  // As train(); but after all have joined and `written` checkpoints were written, waits for `after` and kills process
  // `victim`, unless training has ended by then.
  static Outcome train_and_kill(int processes, const TemporaryFolder& folder, int victim, std::size_t written,
                                milliseconds after, const char* shard) {
    const CheckpointFolder checkpoints(folder.path());
    const std::size_t enough = checkpoints.steps().size() + written;
    std::map<int, pid_t> pids;
    std::atomic<bool> ended = false;
    std::thread killer;
    const Outcome job = train(
        processes, folder,
        [&](const std::string& line) {
          const std::size_t at = line.find("] pid ");
          if (line.empty() || line[0] != '[' || at == std::string::npos) return;
          pids[std::stoi(line.substr(1))] = std::stoi(line.substr(at + 6));
          if (int(pids.size()) < processes) return;
          killer = std::thread([&, pid = pids[victim]] {
            while (!ended && checkpoints.steps().size() < enough) std::this_thread::sleep_for(milliseconds(1));
            std::this_thread::sleep_for(after);
            if (!ended) ::kill(pid, SIGKILL);
          });
        },
        shard);
    ended = true;
    if (killer.joinable()) killer.join();
    EXPECT_TRUE(job.ended_in_time) << job.output;
    return job;
  }

  static void expect_trained(const Outcome& job, int processes) {
    EXPECT_EQ(job.status, 0) << job.output;
    EXPECT_EQ(job.lines_with("trained 48 steps").size(), std::size_t(processes)) << job.output;
  }

  // Compares everything in every checkpoint that determines how training continues.
  static void expect_same(const TemporaryFolder& a, const TemporaryFolder& b) {
    const CheckpointFolder first(a.path()), other(b.path());
    ASSERT_EQ(first.steps().size(), 24u);
    ASSERT_EQ(first.steps(), other.steps());
    for (const std::int64_t step : first.steps()) {
      const Checkpoint expected = first.load(step), got = other.load(step);
      for (const char* section : {"model", "optimizer", "schedule"})
        EXPECT_TRUE(same(got.tensors(section), expected.tensors(section))) << section << " after step " << step;
      EXPECT_EQ(got.generator("random"), expected.generator("random")) << step;
      EXPECT_EQ(got.loader("loader"), expected.loader("loader")) << step;
    }
  }
};

TEST_F(MpiTraining, OfAnyNumberOfProcessesIsThatOfOne) {
  const TemporaryFolder one;
  expect_trained(train(1, one), 1);
  for (const int processes : {2, 4}) {
    SCOPED_TRACE(processes);
    const TemporaryFolder several;
    expect_trained(train(processes, several), processes);
    expect_same(one, several);
  }
}

TEST_F(MpiTraining, DividedBetweenAllDevicesIsThatOfOne) {
  for (const char* shard : {"optimizer_state", "parameters"}) {
    const TemporaryFolder one;
    expect_trained(train(1, one, {}, shard), 1);
    for (const int processes : {2, 4}) {
      SCOPED_TRACE(text(shard, ", ", processes, " processes"));
      const TemporaryFolder several;
      expect_trained(train(processes, several, {}, shard), processes);
      expect_same(one, several);
    }
  }
}

TEST_F(MpiTraining, KilledAnywhereGoesOnAsIfItHadNotBeen) {
  const TemporaryFolder one;
  const Outcome whole = train(1, one);
  expect_trained(whole, 1);
  std::atomic<int> killed = 0;
  side_by_side(kTrials, [&](int trial) {
    std::mt19937 random(unsigned(trial) + 1);
    const TemporaryFolder folder;
    for (int life = 0; life < 4; ++life) {
      const int processes = 1 << random() % 3, victim = int(random() % unsigned(processes));
      const std::size_t written = random() % 8;  // of 24
      const milliseconds after(random() % 20);
      const char* const shard = random() % 2 ? "parameters" : "none";
      SCOPED_TRACE(text("trial ", trial, ", life ", life, ", ", shard, ": process ", victim, " of ", processes, ", ",
                        after.count(), " ms after ", written, " checkpoints"));
      killed += train_and_kill(processes, folder, victim, written, after, shard).status != 0;
    }
    const int processes = 1 << random() % 3;
    expect_trained(train(processes, folder), processes);
    expect_same(one, folder);
  });
  std::cout << killed << " jobs killed\n";
  EXPECT_GE(killed, kTrials) << "too few were killed before they ended";
}

TEST_F(MpiTraining, OfAModelWithoutMemoryBeginsWithTheValuesOfTheFirstProcess) {
  const Outcome job = mpirun({"-n", "3", LOCKSTEP_MPI_JOB, "makes_deferred_models"});
  EXPECT_EQ(job.status, 0) << job.output;
  EXPECT_EQ(job.lines_with("made").size(), 3u) << job.output;
}

TEST_F(MpiTraining, OfAModelThatGetsWhatItHasMadeIsThatOfOne) {
  const Outcome job = mpirun({"-n", "2", LOCKSTEP_MPI_JOB, "trains_adversaries"});
  EXPECT_EQ(job.status, 0) << job.output;
}

// Run `mpi_job trains_resnet DEVICES ROWS BACKWARDS` under mpirun for other sizes.
TEST_F(MpiTraining, SumsOfBackwardsThroughManyNormsAreThoseOfOne) {
  for (const auto& [processes, devices, rows] :
       {std::tuple("2", "2", "8"), std::tuple("3", "1", "7"), std::tuple("2", "3", "5")}) {
    const Outcome job = mpirun({"-n", processes, LOCKSTEP_MPI_JOB, "trains_resnet", devices, rows, "4"});
    EXPECT_EQ(job.status, 0) << job.output;
  }
}

// Each process gets the same error, and none reports that another process ended.
TEST_F(MpiTraining, ThatProcessesRefuseEndsEachWithTheSameError) {
  const std::map<std::string, std::string> errors = {
      {"model", "[DataParallel] expected the same model in all processes, got parameter \"weight\" [3, 2] float32 in"},
      {"max_epochs", "[trainer] expected the same in all processes, got max_epochs 1 in process 0"},
      {"devices", "[trainer] expected the same in all processes, got devices 1 in process 0"},
      {"batches", "[trainer] expected the same in all processes, got batches in an epoch 3 in process 0"},
      {"loss", "[trainer] expected a finite loss, got a mean of nan over steps 1 to 3"},
      {"rate", "[optimizer] expected the same optimizer in all processes, got SGD group 0: lr 0.1 in process 0"},
      {"disk", "[read] failed on /dev/full/run"},
  };
  side_by_side(repetitions(4) * int(errors.size()), [&](int trial) {
    const auto& [what, error] = *std::next(errors.begin(), trial % int(errors.size()));
    const int processes = 2 + trial / int(errors.size()) % 2;
    const Outcome job = mpirun({"-n", text(processes), LOCKSTEP_MPI_JOB, "disagrees", what, text(trial)});
    EXPECT_EQ(job.status, 3) << job.output;
    EXPECT_EQ(job.lines_with("error: " + error).size(), std::size_t(processes)) << trial << '\n' << job.output;
    EXPECT_TRUE(job.lines_with("was ended by an exception").empty()) << trial << '\n' << job.output;
  });
}

}  // namespace
}  // namespace lockstep::testing
