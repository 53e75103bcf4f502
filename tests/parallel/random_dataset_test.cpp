// The main job's output, for any number of devices and any timing.
#include <gtest/gtest.h>

#include <numeric>

#include "parallel/mlp_job.h"
#include "support/repetitions.h"
#include "support/test_devices.h"

namespace lockstep {
namespace {

using testing::Model;
using testing::printed;
using testing::RandomDataset;

void run_job(int devices) {
  std::vector<int> ids(static_cast<std::size_t>(devices));
  std::iota(ids.begin(), ids.end(), 0);
  data::DataLoader loader(RandomDataset(5, 100), {.batch_size = 30, .shuffle = true});
  DataParallel model(Model(5, 2), {.device_ids = ids});
  for (const Tensor& data : loader) {
    Tensor input = data.to(model.device());
    Tensor output = model(input);
    print("Outside: input size {} output_size {}\n", input.sizes(), output.sizes());
  }
  synchronize(model.device());
}

// From the definition of chunk: ceil(rows / devices) rows each, until no row is left.
std::string expected_output(int devices) {
  std::string text;
  for (const int rows : {30, 30, 30, 10}) {
    const int length = (rows + devices - 1) / devices;
    for (int from = 0; from < rows; from += length) {
      const std::string shard = std::to_string(std::min(length, rows - from));
      text += "\tIn Model: input size [" + shard + ", 5] output size [" + shard + ", 2]\n";
    }
    const std::string batch = std::to_string(rows);
    text += "Outside: input size [" + batch + ", 5] output_size [" + batch + ", 2]\n";
  }
  return text;
}

class RandomDatasetJob : public ::testing::TestWithParam<int> {};

TEST_P(RandomDatasetJob, PrintsEachShardOnceInOrder) {
  const TestDevices devices(GetParam());
  EXPECT_EQ(printed([] { run_job(GetParam()); }), expected_output(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Devices, RandomDatasetJob, ::testing::Values(1, 2, 3, 4, 7, 16));

TEST(RandomDatasetJob, PrintsTheSameForAThousandTimings) {
  const std::string expected = expected_output(3);
  for (int seed = 1; seed <= testing::repetitions(1000); ++seed) {
    SimulatedDevices devices({.count = 3, .seed = std::uint64_t(seed), .max_delay_us = 40});
    ASSERT_EQ(printed([] { run_job(3); }), expected) << "seed " << seed;
  }
}

TEST(RandomDatasetJob, PassesThroughOnTheCpu) {
  data::DataLoader loader(RandomDataset(5, 100), {.batch_size = 30});
  DataParallel model(Model(5, 2));
  ASSERT_EQ(model.devices().size(), 1u);
  const std::string text = printed([&] {
    for (const Tensor& data : loader) model(data);
  });
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);
}

}  // namespace
}  // namespace lockstep
