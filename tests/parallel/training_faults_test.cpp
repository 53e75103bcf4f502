// Every fault that can be injected, at every operation of one training step: a typed error, all memory returned, and
// training that goes on from the last checkpoint as if nothing had been. (That nothing hangs is seen by the tests
// ending.)
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include <lockstep/optim/sgd.h>

#include "parallel/job.h"

namespace lockstep {
namespace {

using testing::floats;
using testing::Mlp;

struct Setup {
  int devices;
  bool shard = false;
};

class TrainingFaults : public ::testing::TestWithParam<Setup> {
 protected:
  int count() const { return GetParam().devices; }

  void step() {
    optimizer_.zero_grad();
    const Tensor output = model_(input_);
    mean(output * output).backward();
    optimizer_.step();
  }

  void wait() {
    for (const Device& device : model_.devices()) synchronize(device);
  }

  std::vector<float> weights() {
    std::vector<float> all;
    for (const Tensor& parameter : model_.parameters())
      for (const float value : floats(parameter)) all.push_back(value);
    return all;
  }

  static StateDict copy_of(const StateDict& state) {
    StateDict copy;
    for (const auto& [key, value] : state) copy.add(key, value.clone());
    return copy;
  }

  template <class E>
  void try_all(std::uint64_t OperationCounts::*kind, const std::function<void(FaultInjector&, Fault)>& inject) {
    for (int i = 0; i < 3; ++i) step();
    wait();
    const StateDict model = copy_of(model_.state_dict()), optimizer = copy_of(optimizer_.state_dict());
    const auto go_back = [&] {
      model_.load_state_dict(model);
      optimizer_.load_state_dict(optimizer);
    };
    go_back();  // as before each fault: loaded state lies in as few pieces as can be
    std::vector<std::uint64_t> before, reached;
    for (int d = 0; d < count(); ++d) before.push_back(devices_.counts(d).*kind);
    step();
    for (int d = 0; d < count(); ++d) reached.push_back(devices_.counts(d).*kind - before[std::size_t(d)]);
    ASSERT_GT(std::accumulate(reached.begin(), reached.end(), std::uint64_t(0)), 0u);
    wait();
    const std::vector<float> right = weights();
    optimizer_.zero_grad();
    const std::vector<std::size_t> in_use = testing::memory_in_use(count());
    for (int d = 0; d < count(); ++d)
      for (std::uint64_t n = 1; n <= reached[std::size_t(d)]; ++n) {
        SCOPED_TRACE("operation " + std::to_string(n) + " on cuda:" + std::to_string(d));
        go_back();
        wait();
        inject(devices_.fault(), {.device = d, .nth = n});
        try {
          step();
          wait();
          ADD_FAILURE() << "nothing was thrown";
        } catch (const E& error) {
          named_ += std::string(error.what()).find("cuda:" + std::to_string(d)) != std::string::npos ||
                    std::string(error.what()).find("rank " + std::to_string(d)) != std::string::npos;
          ++thrown_;
        }
        devices_.fault().clear();
        testing::drain<E>(count());
        optimizer_.zero_grad();
        EXPECT_EQ(testing::memory_in_use(count()), in_use);
        go_back();
        step();
        wait();
        EXPECT_EQ(weights(), right);
      }
    EXPECT_EQ(named_, thrown_) << "errors that name the device or rank";
  }

  int named_ = 0, thrown_ = 0;
  SimulatedDevices devices_{{.count = count()}};
  DataParallel<Mlp> model_{Mlp(),
                           {.buckets = {.first_bytes = 64, .bytes = 128, .shard_optimizer_state = GetParam().shard}}};
  optim::SGD optimizer_{model_.parameters(), {.lr = 0.1, .momentum = 0.9}};
  Tensor input_ = randn({11, 5});
};

TEST_P(TrainingFaults, AllocationThrowsOutOfMemory) {
  try_all<OutOfMemory>(&OperationCounts::allocations,
                       [](FaultInjector& fault, Fault at) { fault.fail_allocation(at); });
}

TEST_P(TrainingFaults, LaunchThrows) {
  try_all<Error>(&OperationCounts::launches, [](FaultInjector& fault, Fault at) { fault.fail_launch(at); });
}

TEST_P(TrainingFaults, CopyThrows) {
  try_all<Error>(&OperationCounts::copies, [](FaultInjector& fault, Fault at) { fault.fail_copy(at); });
}

TEST_P(TrainingFaults, CollectiveThrowsCollectiveError) {
  try_all<CollectiveError>(&OperationCounts::collectives,
                           [](FaultInjector& fault, Fault at) { fault.fail_collective(at); });
}

INSTANTIATE_TEST_SUITE_P(Devices, TrainingFaults,
                         ::testing::Values(Setup{2}, Setup{3}, Setup{5}, Setup{2, true}, Setup{3, true},
                                           Setup{5, true}),
                         [](const auto& test) {
                           return std::to_string(test.param.devices) + (test.param.shard ? "Sharded" : "");
                         });

}  // namespace
}  // namespace lockstep
