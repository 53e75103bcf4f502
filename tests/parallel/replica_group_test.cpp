// A group of replicas of which some do not run: a batch with fewer rows than devices.
#include <lockstep/parallel/replica_group.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include <lockstep/parallel/parallel_apply.h>
#include <lockstep/runtime/simulation.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "parallel/replica_group_impl.h"
#include "support/test_devices.h"

namespace lockstep {
namespace {

std::vector<Device> first_devices(int count) {
  std::vector<Device> devices;
  for (int i = 0; i < count; ++i) devices.push_back(Device::cuda(i));
  return devices;
}

TEST(ReplicaGroup, HasOneCommunicatorWhateverTheNumberOfReplicas) {
  SimulatedDevices devices({.count = 3});
  const ReplicaPass pass = {.group = std::make_shared<ReplicaGroup>(first_devices(3))};
  std::uint64_t sums = 0;
  for (const int count : {2, 3, 2}) {
    run_replicas(
        first_devices(count),
        [](std::size_t i) {
          const Tensor x = full({2}, double(i + 1), {.device = Device::cuda(int(i))});
          sum_over_replicas(x);
        },
        pass);
    ++sums;
    for (int i = 0; i < 3; ++i) EXPECT_EQ(devices.counts(i).collectives, sums) << "device " << i << ", of " << count;
  }
}

// One tensor for each device, with signed zeros and non-finite values.
std::vector<Tensor> parts_on(const std::vector<Device>& devices, DType dtype) {
  manual_seed(3);
  std::vector<Tensor> parts;
  for (const Device& device : devices) {
    Tensor part = randn({37}).to(dtype);
    part.narrow(0, 0, 2).fill_(-0.0);
    part.narrow(0, 1, 1).fill_(device.index() == 0 ? 0.0 : -0.0);
    if (device.index() == 1) part.narrow(0, 2, 1).fill_(std::numeric_limits<double>::infinity());
    parts.push_back(part.to(device));
  }
  return parts;
}

// Values and signs, so that -0 differs from 0.
std::vector<std::pair<double, bool>> bits_of(const Tensor& tensor) {
  std::vector<std::pair<double, bool>> bits;
  for (const double value : tensor.to(kFloat64).to_vector<double>()) bits.emplace_back(value, std::signbit(value));
  return bits;
}

TEST(ReplicaGroup, GivesThoseThatRunTheBitsOfAGroupOfTheirOwn) {
  const TestDevices devices(4);
  const ReplicaGroup of_all(first_devices(4));
  for (const int count : {2, 3}) {
    const ReplicaGroup own(first_devices(count));
    const std::vector<Device> on = first_devices(count);
    std::vector<Stream> streams;
    for (const Device& device : on) streams.push_back(current_stream(device));
    for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
      for (const bool is_mean : {false, true}) {
        const std::vector<Tensor> expected = parts_on(on, dtype), got = parts_on(on, dtype);
        const auto reduce = [&](const ReplicaGroup& group, const std::vector<Tensor>& tensors) {
          is_mean ? group.impl().mean(tensors, streams, std::size_t(count)) : group.impl().sum(tensors, streams);
        };
        reduce(own, expected);
        reduce(of_all, got);
        for (int i = 0; i < count; ++i)
          EXPECT_EQ(bits_of(got[std::size_t(i)]), bits_of(expected[std::size_t(i)]))
              << count << " of 4, " << dtype << (is_mean ? ", mean" : ", sum");
      }
    }
  }
}

}  // namespace
}  // namespace lockstep
