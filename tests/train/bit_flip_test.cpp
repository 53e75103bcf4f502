// A bit of a checkpoint flips, on disk or in transit: no load accepts the file as what was written.
#include <gtest/gtest.h>

#include <lockstep/train/checkpoint.h>

#include "io/memory_source.h"
#include "support/temporary_folder.h"
#include "train/noisy_job.h"

namespace lockstep {
namespace {

// A complete training state: model, momentum, schedule, loader, random numbers.
std::string checkpoint_file() {
  const testing::TemporaryFolder folder;
  testing::NoisyJob job(1);
  job.run(3);
  Checkpoint checkpoint = job.checkpoint();
  checkpoint.notes()["größe"] = "重み";
  checkpoint.save(folder / "a");
  return testing::contents(folder / "a");
}

TEST(BitFlip, AnywhereInACheckpointIsDetectedOrWithoutEffect) {
  const std::string written = checkpoint_file();
  testing::MemorySource whole(written);
  const safetensors::Contents expected = safetensors::read(whole, {});
  std::string flipped = written;
  std::int64_t detected = 0, without_effect = 0, unnoticed = 0;
  for (std::size_t bit = 0; bit < written.size() * 8; ++bit) {
    char& byte = flipped[bit / 8];
    byte = char(byte ^ (1 << bit % 8));
    try {
      testing::MemorySource source(flipped);
      const safetensors::Contents got = safetensors::read(source, {});
      const bool same = got.metadata == expected.metadata && testing::same(got.tensors, expected.tensors);
      ++(same ? without_effect : unnoticed);
      if (!same && unnoticed < 10) ADD_FAILURE() << "bit " << bit % 8 << " of byte " << bit / 8;
    } catch (const FormatError&) {
      ++detected;
    }
    byte = written[bit / 8];
  }
  EXPECT_EQ(unnoticed, 0) << detected << " detected, " << without_effect << " without effect";
  EXPECT_GT(detected, 10'000);
}

}  // namespace
}  // namespace lockstep
