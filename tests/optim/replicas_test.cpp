// Parameters with replicas on several devices stay equal in all of them, and equal to training on one device.
#include <gtest/gtest.h>

#include <lockstep/core/error.h>
#include <lockstep/optim/adam.h>
#include <lockstep/optim/sgd.h>
#include <lockstep/runtime/memory.h>
#include <lockstep/runtime/simulation.h>

#include "optim/cases.h"
#include "optim/replicas.h"
#include "support/replicas.h"
#include "support/test_devices.h"

namespace lockstep {
namespace {

using testing::OptimizerCase;
using testing::values_in;

std::vector<Device> gpus(int count) {
  std::vector<Device> devices;
  for (int i = 0; i < count; ++i) devices.push_back(Device::cuda(i));
  return devices;
}

void train(optim::Optimizer& optimizer, const std::vector<Tensor>& parameters, int from, int to) {
  for (int step = from; step < to; ++step) {
    testing::set_gradients(parameters, step);
    optimizer.step();
    optimizer.zero_grad();
  }
}

void expect_equal_everywhere(const std::vector<Tensor>& parameters, const std::vector<Tensor>& expected,
                             const std::string& what) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::vector<double> values = values_in(expected[i]);
    for (std::size_t k = 0; k < optim::replica_count(parameters[i]); ++k)
      EXPECT_EQ(values_in(parameters[i], k), values) << what << ", parameter " << i << ", place " << k;
  }
}

TEST(Replicas, StayBitIdenticalToOneDevice) {
  for (const DType dtype : {kFloat64, kFloat32, kBFloat16}) {
    SimulatedDevices devices({.count = 3, .max_delay_us = 20});
    for (const OptimizerCase& which : testing::optimizer_cases()) {
      const std::vector<Tensor> alone = testing::make_parameters({"cuda:0"}, dtype);
      const std::vector<Tensor> together = testing::make_parameters(gpus(3), dtype);
      const auto on_one = which.make(alone), on_all = which.make(together);
      train(*on_one, alone, 0, 6);
      train(*on_all, together, 0, 6);
      expect_equal_everywhere(together, alone, which.name);
    }
  }
}

TEST(Replicas, AreNotCopied) {
  SimulatedDevices devices({.count = 3});
  const std::vector<Tensor> parameters = testing::make_parameters(gpus(3));
  optim::Adam optimizer(parameters, {});
  testing::set_gradients(parameters, 0);
  const OperationCounts before = devices.counts(0);
  for (int step = 0; step < 5; ++step) optimizer.step();
  EXPECT_EQ(devices.counts(0).copies, before.copies);
}

TEST(Replicas, TakeOverTheStateWhenTheyComeLater) {
  const TestDevices devices(2);
  const std::vector<Tensor> alone = testing::make_parameters({"cuda:0"}), some = testing::make_parameters(gpus(2));
  optim::Adam reference(alone, {}), optimizer(some, {});
  train(reference, alone, 0, 6);
  std::vector<Tensor> replicas;
  for (const Tensor& parameter : some) {
    replicas.push_back(testing::other_replicas(parameter).front());
    testing::LooseReplicas::detach(parameter);
  }
  train(optimizer, some, 0, 3);
  for (std::size_t i = 0; i < some.size(); ++i) {
    const NoGrad guard;
    replicas[i].copy_(some[i]);
    testing::LooseReplicas::attach(some[i], {replicas[i]});
  }
  train(optimizer, some, 3, 6);
  expect_equal_everywhere(some, alone, "a late replica");
}

TEST(Replicas, WithoutAGradientAreRefusedBeforeAnythingChanges) {
  const TestDevices devices(2);
  const std::vector<Tensor> parameters = testing::make_parameters(gpus(2));
  optim::SGD optimizer(parameters, {.lr = 0.1});
  testing::set_gradients(parameters, 0);
  Tensor(optim::replica(parameters[2], 1)).set_grad({});
  const std::vector<double> before = values_in(parameters[0]);
  try {
    optimizer.step();
    FAIL() << "expected AutogradError";
  } catch (const AutogradError& error) {
    EXPECT_STREQ(error.what(), "[SGD] expected a gradient of parameter 2 on cuda:1 as on cuda:0, got none");
  }
  EXPECT_EQ(values_in(parameters[0]), before);
}

TEST(Replicas, LoseTheirGradientsWithThePrimary) {
  const TestDevices devices(2);
  const std::vector<Tensor> parameters = testing::make_parameters(gpus(2));
  optim::SGD optimizer(parameters, {.lr = 0.1});
  testing::set_gradients(parameters, 0);
  const Tensor replica = optim::replica(parameters[0], 1), gradient = replica.grad();
  optimizer.zero_grad(false);
  EXPECT_TRUE(replica.grad().is_same(gradient));
  EXPECT_EQ(gradient.to_vector<double>(), std::vector<double>(35));
  optimizer.zero_grad();
  EXPECT_FALSE(replica.grad().defined());
}

TEST(SteadyState, AllocatesNothing) {
  for (const OptimizerCase& which : testing::optimizer_cases()) {
    const TestDevices devices(2);
    const std::vector<Tensor> parameters = testing::make_parameters(gpus(2));
    const auto optimizer = which.make(parameters);
    testing::set_gradients(parameters, 0);
    optimizer->step();
    const MemoryStats before[] = {memory_stats("cuda:0"), memory_stats("cuda:1")};
    for (int step = 0; step < 3; ++step) optimizer->step();
    for (const int d : {0, 1})
      EXPECT_EQ(memory_stats(Device::cuda(d)).allocations, before[d].allocations) << which.name << " on device " << d;
  }
}

TEST(SteadyState, LaunchesOncePerDeviceAndGroup) {
  SimulatedDevices devices({.count = 2});
  const std::vector<Tensor> parameters = testing::make_parameters(gpus(2));
  optim::AdamW optimizer(parameters, {});
  testing::set_gradients(parameters, 0);
  optimizer.step();
  const OperationCounts before[] = {devices.counts(0), devices.counts(1)};
  optimizer.step();
  for (const int d : {0, 1}) EXPECT_EQ(devices.counts(d).launches, before[d].launches + 1);
}

}  // namespace
}  // namespace lockstep
