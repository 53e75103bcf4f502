// Every fault that can be injected, at every operation of one forward pass: the right typed error, all memory freed,
// and a correct next pass. (The test's end shows that nothing hangs.)
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "parallel/mlp_job.h"

namespace lockstep {
namespace {

using testing::floats;
using testing::Mlp;

class Faults : public ::testing::TestWithParam<int> {
 protected:
  // One pass whose result is read on the host.
  std::vector<float> pass() { return floats(model_(input_)); }

  // Injects at the n-th operation of one kind on each device, for every n that a pass reaches, and expects an E.
  template <class E>
  void try_all(std::uint64_t OperationCounts::*kind, const std::function<void(FaultInjector&, Fault)>& inject) {
    pass();
    const std::vector<float> right = pass();
    std::vector<std::uint64_t> before, reached;
    for (int d = 0; d < GetParam(); ++d) before.push_back(devices_.counts(d).*kind);
    pass();
    for (int d = 0; d < GetParam(); ++d) reached.push_back(devices_.counts(d).*kind - before[std::size_t(d)]);
    ASSERT_GT(std::accumulate(reached.begin(), reached.end(), std::uint64_t(0)), 0u);
    const std::vector<std::size_t> in_use = testing::memory_in_use(GetParam());
    for (int d = 0; d < GetParam(); ++d)
      for (std::uint64_t n = 1; n <= reached[std::size_t(d)]; ++n) {
        SCOPED_TRACE("operation " + std::to_string(n) + " on cuda:" + std::to_string(d));
        inject(devices_.fault(), {.device = d, .nth = n});
        EXPECT_THROW(checked_pass<E>(d), E);
        devices_.fault().clear();
        testing::drain<E>(GetParam());
        EXPECT_EQ(testing::memory_in_use(GetParam()), in_use);
        EXPECT_EQ(pass(), right);
      }
  }

  // Runs the pass, and then takes errors that other devices' streams hold.
  template <class E>
  void checked_pass(int device) {
    try {
      pass();
      for (int d = 0; d < GetParam(); ++d) synchronize(Device::cuda(d));
    } catch (const E& error) {
      EXPECT_NE(std::string(error.what()).find("cuda:" + std::to_string(device)), std::string::npos) << error.what();
      throw;
    }
  }

  SimulatedDevices devices_{{.count = GetParam()}};
  DataParallel<Mlp> model_{Mlp()};
  Tensor input_ = randn({11, 5});
};

TEST_P(Faults, AllocationThrowsOutOfMemory) {
  try_all<OutOfMemory>(&OperationCounts::allocations,
                       [](FaultInjector& fault, Fault at) { fault.fail_allocation(at); });
}

TEST_P(Faults, LaunchThrowsBackendError) {
  try_all<BackendError>(&OperationCounts::launches, [](FaultInjector& fault, Fault at) { fault.fail_launch(at); });
}

TEST_P(Faults, CopyThrowsBackendError) {
  try_all<BackendError>(&OperationCounts::copies, [](FaultInjector& fault, Fault at) { fault.fail_copy(at); });
}

TEST_P(Faults, LostDeviceThrowsBackendError) {
  try_all<BackendError>(&OperationCounts::launches, [](FaultInjector& fault, Fault at) { fault.lose_device(at); });
}

INSTANTIATE_TEST_SUITE_P(Devices, Faults, ::testing::Values(1, 2, 3, 5));

}  // namespace
}  // namespace lockstep
