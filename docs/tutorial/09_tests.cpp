// Chapter 9: tests with simulated devices.
#include <gtest/gtest.h>
#include <lockstep/lockstep.h>

#include <vector>
using namespace lockstep;

struct Net : nn::Module<Net> {
  nn::Linear hidden{3, 8};
  nn::Linear output{8, 1};
  auto members() { return nn::members("hidden", hidden, "output", output); }
  Tensor forward(const Tensor& x) { return output(tanh(hidden(x))); }
};

// Ten steps on that many devices; the loss of each.
std::vector<double> losses_on(int device_count) {
  SimulatedDevices devices({.count = device_count, .max_delay_us = 50});
  manual_seed(1);
  Tensor input = randn({12, 3});
  DataParallel model(Net{});
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  std::vector<double> losses;
  for (int step = 0; step < 10; ++step) {
    optimizer.zero_grad();
    Tensor loss = nn::mse_loss(model(input), sum(input, {1}, true).to(model.device()));
    loss.backward();
    optimizer.step();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

TEST(Net, LearnsTheSameOnOneTwoAndThreeDevices) {
  const std::vector<double> one = losses_on(1);
  EXPECT_LT(one.back(), one.front());
  for (int count : {2, 3}) {
    const std::vector<double> several = losses_on(count);
    for (size_t step = 0; step < one.size(); ++step) EXPECT_NEAR(several[step], one[step], 1e-5);
  }
}

TEST(Net, CanBeCalledAgainAfterADeviceRanOutOfMemory) {
  SimulatedDevices devices({.count = 2});
  DataParallel model(Net{});
  Tensor input = randn({4, 3});
  devices.fault().fail_allocation({.device = 1, .nth = 1});
  EXPECT_THROW(model(input), OutOfMemory);
  EXPECT_EQ(model(input).sizes(), Shape({4, 1}));
}

TEST(Net, CopiesNothingToTheHostInAStep) {
  SimulatedDevices devices({.count = 2});
  DataParallel model(Net{});
  Tensor input = randn({4, 3}, {.device = "cuda:0"});
  sum(model(input)).backward();  // the first pass makes what later ones use
  const auto before = devices.counts(0).host_waits;
  sum(model(input)).backward();
  EXPECT_EQ(devices.counts(0).host_waits, before);
}
