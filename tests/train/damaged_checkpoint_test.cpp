// A Trainer whose newest checkpoint is damaged resumes from the newest intact one, reports it, and removes nothing.
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>

#include <lockstep/tensor/creation.h>
#include <lockstep/train/trainer.h>

#include "io/memory_source.h"
#include "support/temporary_folder.h"
#include "support/thrown.h"
#include "train/fit_job.h"

namespace lockstep::train {
namespace {

using testing::columns_of;
using testing::contents;
using testing::FitJob;
using testing::kSilent;
using testing::TemporaryFolder;
using testing::thrown;
using testing::write_file;

// A folder with the checkpoints of one epoch of ten steps: after steps 2, 4, 6, 8 and 10.
class DamagedCheckpoint : public ::testing::Test {
 protected:
  DamagedCheckpoint() { FitJob({}).fit(options(1)); }

  TrainerOptions options(std::int64_t epochs) const {
    return {.max_epochs = epochs,
            .num_gpus = 0,
            .checkpoint = {.folder = folder_.path(), .every_steps = 2, .keep = 0, .resume = true},
            .progress = kSilent};
  }
  std::filesystem::path path(std::int64_t step) const { return CheckpointFolder(folder_.path()).path(step); }

  void flip_a_bit(std::int64_t step) const {
    std::string bytes = contents(path(step));
    bytes[bytes.size() - 100] ^= 4;
    write_file(path(step), bytes);
  }
  void cut_in_half(std::int64_t step) const {
    const std::string bytes = contents(path(step));
    write_file(path(step), bytes.substr(0, bytes.size() / 2));
  }
  // Replaces the value of one section of a checkpoint; the checksums stay valid.
  void put(std::int64_t step, const std::string& section, const Tensor& value) const {
    StateDict changed;
    for (const auto& [key, tensor] : load(path(step))) changed.add(key, key == section ? value : tensor);
    save(changed, path(step), load_metadata(path(step)));
  }

  // Resumes to the end of the second epoch, and keeps the output on standard error.
  History resume(const TrainerOptions& options) {
    ::testing::internal::CaptureStderr();
    const std::shared_ptr<void> captured(nullptr, [&](void*) { errors_ = ::testing::internal::GetCapturedStderr(); });
    return job_.fit(options);
  }
  void expect_as_never_interrupted(const History& history) {
    FitJob whole({});
    EXPECT_EQ(columns_of(history), columns_of(whole.fit({.max_epochs = 2, .num_gpus = 0, .progress = kSilent})));
    EXPECT_EQ(job_.parameters(), whole.parameters());
  }

  TemporaryFolder folder_;
  FitJob job_{{}};
  std::string errors_;
};

TEST_F(DamagedCheckpoint, IsPassedOverForTheNewestIntactOne) {
  flip_a_bit(10);
  cut_in_half(8);
  expect_as_never_interrupted(resume(options(2)));
}

TEST_F(DamagedCheckpoint, IsNamedOnStandardErrorWithTheReason) {
  flip_a_bit(10);
  cut_in_half(8);
  resume(options(2));
  EXPECT_NE(errors_.find("step-000000000010.safetensors"), std::string::npos) << errors_;
  EXPECT_NE(errors_.find("step-000000000008.safetensors"), std::string::npos) << errors_;
  EXPECT_NE(errors_.find("checksum"), std::string::npos) << errors_;
  EXPECT_EQ(errors_.find("step-000000000006"), std::string::npos) << errors_;
}

TEST_F(DamagedCheckpoint, LeavesNothingOnStandardErrorWhereNoneIs) {
  resume(options(2));
  EXPECT_EQ(errors_, "");
}

TEST_F(DamagedCheckpoint, IsInTheHistoryOfThisRunAndOfLaterOnes) {
  flip_a_bit(10);
  const History history = resume(options(2));
  ASSERT_EQ(history.notes().size(), 1u);
  EXPECT_TRUE(history.notes()[0].starts_with("passed over a damaged checkpoint: [" + path(10).string()))
      << history.notes()[0];
  FitJob next({});
  EXPECT_EQ(next.fit(options(3)).notes(), history.notes());
}

TEST_F(DamagedCheckpoint, IsNeitherRemovedNorCountedAmongThoseToKeep) {
  flip_a_bit(4);
  cut_in_half(10);
  const std::string fourth = contents(path(4)), tenth = contents(path(10));
  TrainerOptions two = options(2);
  two.checkpoint.keep = 2;
  resume(two);
  EXPECT_EQ(CheckpointFolder(folder_.path()).steps(), (std::vector<std::int64_t>{4, 18, 20}));
  EXPECT_EQ(contents(path(4)), fourth);
  EXPECT_EQ(contents(path(10).string() + ".damaged"), tenth) << "its step was saved again";
}

TEST_F(DamagedCheckpoint, IsAnErrorWhereResumingIsStrict) {
  flip_a_bit(10);
  TrainerOptions strict = options(2);
  strict.checkpoint.strict = true;
  const std::vector<float> before = job_.parameters();
  EXPECT_EQ(thrown<FormatError>([&] { resume(strict); }).find('[' + path(10).string() + "] at byte "), 0u);
  EXPECT_EQ(job_.parameters(), before);
  EXPECT_EQ(errors_, "");
}

TEST_F(DamagedCheckpoint, IsAnErrorWhereNoneIsIntact) {
  for (const std::int64_t step : {2, 4, 6, 8}) flip_a_bit(step);
  cut_in_half(10);
  try {
    resume(options(2));
    FAIL();
  } catch (const FormatError& error) {
    EXPECT_EQ(error.file, path(10).string());
    EXPECT_EQ(error.attached().size(), 4u);
  }
}

TEST_F(DamagedCheckpoint, MayBeNoFileAtAll) {
  std::filesystem::remove(path(10));
  ASSERT_EQ(::mkfifo(path(10).c_str(), 0600), 0);
  std::filesystem::rename(path(8), folder_ / "elsewhere");
  std::filesystem::create_symlink("elsewhere", path(8));
  write_file(path(6), "");
  TrainerOptions more = options(2);
  more.checkpoint.every_steps = 7;  // neither at the pipe's name nor at the link's
  more.checkpoint.every_epochs = 0;
  expect_as_never_interrupted(resume(more));
  EXPECT_EQ(errors_.find("step-000000000004"), std::string::npos) << errors_;
  EXPECT_NE(errors_.find("step-000000000006"), std::string::npos) << errors_;
  EXPECT_TRUE(std::filesystem::is_symlink(path(8)));
}

TEST_F(DamagedCheckpoint, IsOneWhoseNumbersContradictEachOther) {
  TrainerOptions strict = options(2);
  strict.checkpoint.strict = true;
  const std::string whole = contents(path(10));
  const auto refusal = [&](const std::string& section, const Tensor& value) {
    put(10, section, value);
    const std::string message = thrown<FormatError>([&] { FitJob({}).fit(strict); });
    write_file(path(10), whole);
    return message.substr(std::min(message.size(), message.find("expected")));
  };
  const auto integer = [](std::int64_t value) { return from_host(&value, 1, kInt64, {1}); };
  constexpr std::int64_t kSign = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(refusal("epoch", integer(1 + kSign)),
            "expected an epoch from 0 to 10 after 10 steps, got -9223372036854775807");
  EXPECT_EQ(refusal("epoch", integer(11)), "expected an epoch from 0 to 10 after 10 steps, got 11");
  EXPECT_EQ(refusal("epoch", integer(2)), "expected a loader after at least 2 epochs, got 1");
  EXPECT_EQ(refusal("step", integer(12)), "expected step 10 as in its name, got 12");
  EXPECT_EQ(refusal("step_in_epoch", integer(-1)), "expected a step_in_epoch from 0 to step 10, got -1");
  EXPECT_EQ(refusal("step_in_epoch", integer(10)), "expected an epoch from 0 to 0 after 0 steps, got 1");
  EXPECT_EQ(refusal("reported_step", integer(11)), "expected a reported_step from 0 to step 10, got 11");
  EXPECT_EQ(refusal("seconds", tensor({NAN}, {.dtype = kFloat64})), "expected seconds of at least 0, got nan");
}

TEST_F(DamagedCheckpoint, IsOneUnderTheNameOfAnotherStep) {
  std::filesystem::rename(path(10), path(100));
  FitJob whole({}), resumed({});
  whole.fit({.max_epochs = 2, .num_gpus = 0, .progress = kSilent});
  resume(options(2));
  EXPECT_EQ(job_.parameters(), whole.parameters());
  EXPECT_NE(errors_.find("expected step 100 as in its name, got 10"), std::string::npos) << errors_;
}

TEST_F(DamagedCheckpoint, IsNoneThatHasMoreEpochsThanAskedFor) {
  FitJob({}).fit(options(2));
  EXPECT_EQ(thrown<InvalidArgument>([&] { resume(options(1)); }),
            "[trainer] expected max_epochs of at least 2, the epochs that checkpoint \"" + path(20).string() +
                "\" has begun, got 1");
}

}  // namespace
}  // namespace lockstep::train
