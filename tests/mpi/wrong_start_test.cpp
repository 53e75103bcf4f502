// Jobs that are started wrongly: each process reports the mistake, and ends.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/text.h"
#include "mpi/launch.h"

namespace lockstep::testing {
namespace {

using Words = std::vector<std::string>;

class MpiWrongStart : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!is_mpirun_there()) GTEST_SKIP() << "no mpirun";
  }
};

void expect_refused(const Outcome& job, int processes, const std::string& words) {
  EXPECT_NE(job.status, 0) << job.output;
  EXPECT_TRUE(job.ended_in_time) << job.output;
  EXPECT_EQ(job.lines_with("error: ").size(), std::size_t(processes)) << job.output;
  EXPECT_EQ(job.lines_with(words).size(), std::size_t(processes)) << job.output;
  EXPECT_EQ(job.lines_with("gathered").size(), 0u) << job.output;
}

// A process that MPI finds no launcher for.
Outcome alone(Words environment) {
  environment.insert(environment.begin(), "env");
  environment.insert(environment.end(), {LOCKSTEP_MPI_JOB, "gathers"});
  return run(environment);
}

// Two processes with different variables. A shell chooses between them: Debian 13's mpirun crashes on two programs.
Outcome two(const Words& first, const Words& second, const std::string& second_program = LOCKSTEP_MPI_JOB) {
  const auto command = [](const Words& variables, const std::string& program) {
    std::string result = "exec env";
    for (const std::string& variable : variables) result += " '" + variable + '\'';
    return result + " '" + program + "' gathers";
  };
  return mpirun({"-n", "2", "sh", "-c",
                 "if [ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} = 0 ]; then " + command(first, LOCKSTEP_MPI_JOB) + "; fi; " +
                     command(second, second_program)});
}

TEST_F(MpiWrongStart, OfSrunWithoutPmi) {
  expect_refused(alone({"SLURM_NTASKS=2", "SLURM_PROCID=0"}), 1,
                 "expected SLURM_NTASKS to be 1, as MPI has found it, got 2");
  expect_refused(alone({"SLURM_NTASKS=8", "SLURM_STEP_NUM_TASKS=4", "SLURM_PROCID=3"}), 1,
                 "expected SLURM_STEP_NUM_TASKS to be 1, as MPI has found it, got 4");
  EXPECT_EQ(alone({"SLURM_NTASKS=1", "SLURM_PROCID=0"}).output, "[0 of 1] gathered on this host\n");
}

TEST_F(MpiWrongStart, ByALauncherThatIsNotOfMpi) {
  expect_refused(alone({"WORLD_SIZE=2", "RANK=1"}), 1, "expected WORLD_SIZE to be 1, as MPI has found it, got 2");
  EXPECT_EQ(alone({"WORLD_SIZE=1", "RANK=0"}).output, "[0 of 1] gathered on this host\n");
}

TEST_F(MpiWrongStart, ByTheLauncherOfAnotherMpi) {
  expect_refused(alone({"PMI_SIZE=2", "PMI_RANK=0"}), 1, "expected PMI_SIZE to be 1, as MPI has found it, got 2");
  expect_refused(alone({"OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_RANK=0"}), 1,
                 "expected OMPI_COMM_WORLD_SIZE to be 1, as MPI has found it, got 4");
}

TEST_F(MpiWrongStart, WithSizesOrRanksThatDisagree) {
  expect_refused(two({"WORLD_SIZE=3"}, {"WORLD_SIZE=3"}), 2, "expected WORLD_SIZE to be 2, as MPI has found it, got 3");
  expect_refused(two({"RANK=0"}, {"RANK=0"}), 2, "expected RANK to be 1, as MPI has found it, got 0");
  expect_refused(two({}, {"RANK=one"}), 2, "expected RANK to be a number, got \"one\"");
  EXPECT_EQ(two({"RANK=0", "WORLD_SIZE=2"}, {"RANK=1", "WORLD_SIZE=2"}).lines_with("gathered").size(), 2u);
}

TEST_F(MpiWrongStart, WithSettingsThatDiffer) {
  const Outcome job = two({"LOCKSTEP_TF32=1"}, {"LOCKSTEP_TF32=0"});
  expect_refused(job, 2, "LOCKSTEP_TF32 differs between processes: \"1\" in process 0 on ");
  expect_refused(job, 2, ", \"0\" in process 1 on ");
  expect_refused(two({}, {"LOCKSTEP_DETERMINISTIC=0"}), 2,
                 "LOCKSTEP_DETERMINISTIC differs between processes: none in process 0 on ");
}

TEST_F(MpiWrongStart, OnDevicesOfAnotherKind) {
  expect_refused(two({"LOCKSTEP_DEVICES=sim:2"}, {"LOCKSTEP_DEVICES=none"}), 2,
                 "LOCKSTEP_DEVICES differs between processes: \"sim:2\" in process 0 on ");
  EXPECT_EQ(two({"LOCKSTEP_DEVICES=sim:2"}, {"LOCKSTEP_DEVICES=sim:1"}).lines_with("gathered").size(), 2u);
}

TEST_F(MpiWrongStart, WithTimeLimitsThatDiffer) {
  expect_refused(two({"LOCKSTEP_TIME_LIMIT=5"}, {"LOCKSTEP_TIME_LIMIT=2.5"}), 2,
                 "the time limit in ms differs between processes: \"5000\" in process 0 on ");
}

TEST_F(MpiWrongStart, WithATimeLimitThatIsNone) {
  for (const std::string value : {"soon", "-1", "0", "1s", ""})
    expect_refused(alone({"LOCKSTEP_TIME_LIMIT=" + value}), 1,
                   "[LOCKSTEP_TIME_LIMIT] expected a number of seconds above 0, got \"" + value + "\"");
}

TEST_F(MpiWrongStart, OfTwoVersionsOfTheLibrary) {
  const Outcome job = two({}, {}, LOCKSTEP_MPI_JOB_OF_ANOTHER_VERSION);
  expect_refused(job, 2, "the version of Lockstep differs between processes: ");
  expect_refused(job, 2, ", \"0.0.1\" in process 1 on ");
}

}  // namespace
}  // namespace lockstep::testing
