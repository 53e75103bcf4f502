// Metrics are weighted means that are kept on the device; reading them does not wait for later work.
#include <lockstep/train/metrics.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include <lockstep/ops/linalg.h>
#include <lockstep/runtime/simulation.h>
#include <lockstep/tensor/creation.h>

#include "support/repetitions.h"
#include "support/test_devices.h"
#include "support/thrown.h"

namespace lockstep::train {
namespace {

std::vector<std::pair<std::string, double>> pairs(const std::vector<Mean>& means) {
  std::vector<std::pair<std::string, double>> all;
  for (const Mean& mean : means) all.emplace_back(mean.name, mean.value);
  return all;
}
using Pairs = std::vector<std::pair<std::string, double>>;

class MetricsOn : public ::testing::TestWithParam<const char*> {
 protected:
  SimulatedDevices devices_{{.count = 2}};
  Device device_ = GetParam();
};

TEST_P(MetricsOn, AreMeansByRowsOrByTheGivenWeight) {
  Metrics metrics(device_);
  metrics.set_rows(3);
  metrics.add("loss", tensor(1., {.device = device_}));
  metrics.add("right", tensor({1}, {.device = device_}), 10);
  metrics.set_rows(1);
  metrics.add("loss", tensor(5., {.device = "cuda:1"}));
  metrics.add("right", tensor({0}), 30);
  EXPECT_EQ(pairs(metrics.snapshot_and_reset().wait()), (Pairs{{"loss", 2}, {"right", 0.25}}));
  EXPECT_TRUE(metrics.empty());
  metrics.add("loss", tensor(7.));
  EXPECT_EQ(pairs(metrics.snapshot_and_reset().wait()), (Pairs{{"loss", 7}}));
}

TEST_P(MetricsOn, LeaveOutBatchesOfWhichOtherProcessesHaveTheRows) {
  Metrics metrics(device_);
  metrics.ignore_batch();
  metrics.add("loss", tensor(NAN, {.device = device_}));
  metrics.add("right", tensor(NAN), 0);
  EXPECT_TRUE(metrics.empty());
  metrics.set_rows(2);
  metrics.add("loss", tensor(3., {.device = device_}));
  EXPECT_EQ(pairs(metrics.snapshot_and_reset().wait()), (Pairs{{"loss", 3}}));
}

TEST_P(MetricsOn, IgnoreAMeanOfWeightZero) {
  Metrics metrics(device_);
  metrics.add("right", tensor(NAN), 0);
  EXPECT_TRUE(metrics.empty());
  metrics.set_rows(0);
  metrics.add("right", tensor(NAN, {.device = device_}));
  metrics.add("right", tensor(0.5), 3);
  metrics.add("right", tensor(NAN, {.device = device_}), 0);
  EXPECT_EQ(pairs(metrics.snapshot_and_reset().wait()), (Pairs{{"right", 0.5}}));
}

TEST_P(MetricsOn, TakeAMeansOwnWeight) {
  Metrics metrics(device_);
  metrics.set_rows(100);
  metrics.add("loss", WeightedMean(tensor(6., {.device = device_}), tensor(2., {.device = device_})));
  metrics.add("right", tensor(0.5), 3);
  metrics.add("loss", WeightedMean(tensor(0.), 0));
  metrics.add("loss", WeightedMean(tensor(4.), 3));
  Metrics other(device_);
  other.load_state_dict(metrics.state_dict());
  EXPECT_EQ(pairs(metrics.snapshot_and_reset().wait()), (Pairs{{"loss", 2}, {"right", 0.5}}));
  other.add("loss", tensor(7.), 5);
  EXPECT_EQ(pairs(other.snapshot_and_reset().wait()), (Pairs{{"loss", 4.5}, {"right", 0.5}}));
}

TEST_P(MetricsOn, GoOnFromTheirState) {
  Metrics metrics(device_), other(device_);
  metrics.add("loss", tensor(0.1), 3);
  other.add("left over", tensor(1.));
  other.load_state_dict(metrics.state_dict());
  for (Metrics* each : {&metrics, &other}) each->add("loss", tensor(0.7), 11);
  EXPECT_EQ(pairs(metrics.snapshot_and_reset().wait()), pairs(other.snapshot_and_reset().wait()));
}

TEST_P(MetricsOn, LeaveTheStateAloneFromWhichTheyGoOn) {
  Metrics metrics(device_), first(device_), second(device_);
  metrics.add("loss", tensor(0.5), 2);
  const StateDict state = metrics.state_dict();
  for (Metrics* each : {&first, &second}) {
    each->load_state_dict(state);
    each->add("loss", tensor(2.), 1);
    EXPECT_EQ(pairs(each->snapshot_and_reset().wait()), (Pairs{{"loss", 1}}));
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, MetricsOn, ::testing::Values("cpu", "cuda:0"));

TEST(Metrics, AreReadWithoutWaitingForLaterWork) {
  const TestDevices devices(2);
  Metrics metrics("cuda:0");
  metrics.add("loss", tensor(2., {.device = "cuda:0"}));
  const PendingMeans means = metrics.snapshot_and_reset();
  const std::int64_t n = are_emulated() ? 300 : 1000;
  const Tensor a = ones({n, n}, {.device = "cuda:0"});
  for (int i = 0; i < testing::repetitions(10); ++i) mm(a, a);
  const cuda::Event later = current_stream("cuda:0").record();
  EXPECT_EQ(pairs(means.wait()), (Pairs{{"loss", 2}}));
  EXPECT_FALSE(later.query());
  later.synchronize();
}

TEST(Metrics, ADroppedWaitForTheSumsIsARace) {
  SimulatedDevices devices({.count = 1});
  Metrics metrics("cuda:0");
  metrics.add("loss", tensor(2., {.device = "cuda:0"}));
  const PendingMeans means = metrics.snapshot_and_reset();
  devices.fault().drop_wait({.device = 0});
  EXPECT_THROW(means.wait(), RaceError);
}

TEST(Metrics, AddWithoutWaiting) {
  SimulatedDevices devices({.count = 1});
  Metrics metrics("cuda:0");
  const Tensor loss = tensor(2., {.device = "cuda:0"});
  const WeightedMean tokens(loss, tensor(3., {.device = "cuda:0"}));
  const std::size_t before = devices.counts(0).host_waits;
  for (int i = 0; i < 100; ++i) metrics.add("loss", loss), metrics.add("tokens", tokens);
  EXPECT_EQ(devices.counts(0).host_waits, before);
  metrics.snapshot_and_reset().wait();
  EXPECT_EQ(devices.counts(0).host_waits, before + 1);
}

TEST(Metrics, RefuseWhatHasNoMean) {
  Metrics metrics{Device()};
  EXPECT_EQ(testing::thrown<ShapeError>([&] { metrics.add("accuracy", ones({3})); }),
            "[metrics] expected one element as accuracy, got shape [3]");
  EXPECT_THROW(metrics.add("loss", tensor(1.), -1), InvalidArgument);
  EXPECT_THROW(metrics.add("loss", tensor(1.), NAN), InvalidArgument);
  EXPECT_THROW(metrics.snapshot_and_reset(), InvalidArgument);
}

}  // namespace
}  // namespace lockstep::train
