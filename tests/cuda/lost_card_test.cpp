// A Trainer that continues without a card that has failed.
#include <mutex>
#include <utility>
#include <vector>

#include <lockstep/train/callback.h>

#include "cuda/fake_devices.h"
#include "support/temporary_folder.h"
#include "train/fit_job.h"

namespace lockstep {
namespace {

using testing::FitJob;

// Loses a card in the second epoch.
struct LosesCard : train::Callback {
  explicit LosesCard(int lost) : lost_(lost) {}
  void on_epoch_begin(train::FitState& fit) override {
    if (fit.epoch() != 2 || std::exchange(has_lost_, true)) return;
    const auto held = fake::lock();
    machine().trapped[lost_] = "an uncorrectable error of memory";
  }

 private:
  const int lost_;
  bool has_lost_ = false;
};

class LostCard : public ::testing::TestWithParam<int> {};

TEST_P(LostCard, IsLeftOutAndTrainingGoesOnFromTheNewestCheckpoint) {
  const auto train = [](const train::Callbacks& callbacks) {
    const FakeDevices devices({.cards = {0, 1, 2}}, 3, true, std::size_t(1) << 30);
    const testing::TemporaryFolder folder;
    FitJob job({.callbacks = callbacks});
    const train::History history = job.fit({.max_epochs = 3,
                                            .checkpoint = {.folder = folder.path(), .every_steps = 2},
                                            .on_lost_device = train::OnLostDevice::resume,
                                            .progress = testing::kSilent});
    const std::vector<float> parameters = job.parameters();
    machine().trapped.clear();
    return std::pair(history.notes(), parameters);
  };
  const auto [none, expected] = train({});
  EXPECT_TRUE(none.empty());
  LosesCard loses(GetParam());
  const auto [notes, got] = train({loses});
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_TRUE(notes[0].starts_with("lost " + Device::cuda(GetParam()).name() + ": ")) << notes[0];
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-4) << i;
}
INSTANTIATE_TEST_SUITE_P(Cards, LostCard, ::testing::Values(0, 1, 2));

}  // namespace
}  // namespace lockstep
