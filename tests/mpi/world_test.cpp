// Jobs without failures.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/text.h"
#include "mpi/launch.h"

namespace lockstep::testing {
namespace {

class MpiWorld : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!is_mpirun_there()) GTEST_SKIP() << "no mpirun";
  }

  // Expects that all `count` processes succeed and print the line.
  static void expect_all(int count, const std::string& scenario, const std::string& line) {
    const Outcome job = mpirun({"-n", text(count), LOCKSTEP_MPI_JOB, scenario});
    EXPECT_EQ(job.status, 0) << job.output;
    EXPECT_TRUE(job.ended_in_time);
    EXPECT_EQ(job.lines_with(line).size(), std::size_t(count)) << job.output;
    for (int p = 0; p < count; ++p)
      EXPECT_EQ(job.lines_with(text('[', p, " of ", count, "] ", line)).size(), 1u) << job.output;
  }
};

TEST_F(MpiWorld, GathersWhatEachProcessGave) {
  for (int count = 1; count <= 4; ++count) expect_all(count, "gathers", "gathered");
}

TEST_F(MpiWorld, WaitsForTheLast) { expect_all(3, "late", "met"); }

TEST_F(MpiWorld, KeepsMessagesOfAChannelInOrder) {
  for (const int count : {2, 4}) expect_all(count, "messages", "all came in order");
}

TEST_F(MpiWorld, MovesMessagesOfAnySize) {
  for (const int count : {2, 3}) expect_all(count, "large", "all bytes came");
}

TEST_F(MpiWorld, AddsUpInTheOrderOfTheRanks) {
  for (int count = 2; count <= 4; ++count) expect_all(count, "sums", "added up");
}

TEST_F(MpiWorld, LeavesByExit) { expect_all(3, "exits", "exits"); }

TEST_F(MpiWorld, TakesNextToNoTimeOfTheProcessorWhenIdle) { expect_all(2, "idle", "was idle"); }

TEST_F(MpiWorld, IsOneForAllCallsOfJoin) {
  const Outcome job = mpirun({"-n", "2", LOCKSTEP_MPI_JOB, "twice"});
  EXPECT_EQ(job.status, 0) << job.output;
  EXPECT_EQ(job.lines_with("refused: [mpi::join] this process has already left its job").size(), 2u) << job.output;
}

TEST_F(MpiWorld, IsAloneWithoutALauncher) {
  const Outcome job = run({LOCKSTEP_MPI_JOB, "gathers"});
  EXPECT_EQ(job.status, 0);
  EXPECT_EQ(job.output, "[0 of 1] gathered on this host\n");
  EXPECT_EQ(run({LOCKSTEP_MPI_JOB, "twice"}).output, "[0 of 1] alone\n");
}

TEST_F(MpiWorld, TakesPartInMpiThatTheProgramBegan) {
  const Outcome job = mpirun({"-n", "2", LOCKSTEP_MPI_JOB, "has_mpi", "multiple"});
  EXPECT_EQ(job.status, 0) << job.output;
  EXPECT_EQ(job.lines_with("joined").size(), 2u) << job.output;
}

TEST_F(MpiWorld, RefusesMpiWithoutThreads) {
  const Outcome job = mpirun({"-n", "2", LOCKSTEP_MPI_JOB, "has_mpi", "funneled"});
  EXPECT_EQ(job.status, 3) << job.output;
  EXPECT_EQ(job.lines_with("expected the level MPI_THREAD_MULTIPLE").size(), 2u) << job.output;
}

TEST_F(MpiWorld, RefusesSizesThatDisagree) {
  for (const std::string receives : {"more", "less"}) {
    const Outcome job = mpirun({"-n", "2", LOCKSTEP_MPI_JOB, "sizes", receives});
    EXPECT_NE(job.status, 0);
    EXPECT_GE(job.lines_with("error: [receive] failed on rank 1").size(), 1u) << job.output;
    EXPECT_GE(job.lines_with("bytes from process 1 on ").size(), 1u) << job.output;
  }
}

}  // namespace
}  // namespace lockstep::testing
