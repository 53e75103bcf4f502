// kill -9 at random instants while a job trains and writes checkpoints: the newest is always readable, and every state
// that the job resumes from equals, byte for byte, that of a job that was never killed.
#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <vector>

#include <lockstep/train/checkpoint_folder.h>

#include "io/killed_child.h"
#include "support/repetitions.h"
#include "support/temporary_folder.h"
#include "train/noisy_job.h"

namespace lockstep {
namespace {

using testing::contents;
using testing::KilledChild;
using testing::NoisyJob;
using testing::TemporaryFolder;

constexpr int kAllKills = 200, kKills = testing::repetitions(kAllKills);
constexpr std::int64_t kSteps = 1'000'000;  // more than the job takes in 200 lives, however slow the parent
constexpr std::uint64_t kSeed = 1;

// Resumes from the newest checkpoint, if there is one.
void resume(NoisyJob& job, const CheckpointFolder& checkpoints) {
  if (const auto step = checkpoints.latest()) job.resume(checkpoints.load(*step));
}

// Not a test: the child's work.
TEST(KillChild, DISABLED_TrainsOn) {
  const CheckpointFolder checkpoints(KilledChild::folder());
  NoisyJob job(kSeed);
  resume(job, checkpoints);
  job.run(kSteps, [&](NoisyJob&) {
    KilledChild::report(job.step());
    checkpoints.save(job.step(), job.checkpoint());
  });
}

// The checkpoint files, by step, of a job that was never killed.
std::vector<std::string> reference(std::int64_t steps) {
  const TemporaryFolder folder;
  std::vector<std::string> files(1);
  NoisyJob(kSeed).run(steps, [&](NoisyJob& job) {
    job.checkpoint().save(folder / "a");
    files.push_back(contents(folder / "a"));
  });
  return files;
}

TEST(Kill, DuringTrainingChangesNothing) {
  const TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder.path());
  testing::KillClock clock(2);
  std::map<std::int64_t, std::string> found;
  int in_temporary = 0;
  std::int64_t furthest = 0;
  for (int kill = 0; kill < kKills; ++kill) {
    KilledChild child("KillChild.DISABLED_TrainsOn", folder.path());
    std::int64_t begun = child.next();
    for (int i = clock.reports(); i > 0; --i) {
      begun = child.next();
      clock.saw_report();
    }
    clock.wait_some();
    begun = child.kill(begun);
    ASSERT_GE(begun, 1) << "the child ended by itself";
    const std::int64_t latest = checkpoints.latest().value_or(-1);
    ASSERT_TRUE(latest == begun || latest == begun - 1) << "begun " << begun << ", found " << latest;
    ASSERT_GE(latest, furthest);
    for (const std::int64_t step : checkpoints.steps()) {
      ASSERT_EQ(checkpoints.load(step).integer("step"), step);
      found[step] = contents(checkpoints.path(step));
    }
    furthest = latest;
    for (const std::string& name : folder.names()) in_temporary += name.starts_with('.');
    ASSERT_LE(folder.names().size(), 5u) << "three to keep, one to be removed, one temporary";
  }
  NoisyJob job(kSeed);
  resume(job, checkpoints);
  job.run(furthest + 10, [&](NoisyJob&) { checkpoints.save(job.step(), job.checkpoint()); });
  found[furthest + 10] = contents(checkpoints.path(furthest + 10));

  const std::vector<std::string> expected = reference(furthest + 10);
  for (const auto& [step, file] : found) ASSERT_EQ(file, expected.at(std::size_t(step))) << step;
  std::cout << kKills << " kills in " << furthest << " steps, " << in_temporary
            << " of them while a temporary was there; " << found.size() << " checkpoints compared\n";
  // About half of the kills hit a write. With a sanitizer there are fewer kills, and possibly none does.
  if (kKills == kAllKills) {
    EXPECT_GT(in_temporary, 0);
  }
}

}  // namespace
}  // namespace lockstep
