// Every fault that can be injected, at every operation of one training step: within a second a typed error that names
// the device and the operation, all memory freed, and training goes on from the last checkpoint as if nothing had
// happened.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <concepts>
#include <functional>
#include <numeric>
#include <set>

#include <lockstep/optim/sgd.h>
#include <lockstep/parallel/sync_batch_norm.h>
#include <lockstep/runtime/trace.h>

#include "core/text.h"
#include "parallel/mlp_job.h"
#include "support/repetitions.h"
#include "support/replicas.h"
#include "support/values.h"

namespace lockstep {
namespace {

struct Setup {
  int devices;
  Shard shard = Shard::none;
  bool norm = false;  // replicas run their own collectives
};

nn::Sequential model_of(const Setup& setup) {
  if (!setup.norm) return nn::Sequential(nn::Linear(5, 67), nn::ReLU(), nn::Linear(67, 2));
  return nn::Sequential(nn::Linear(5, 67), nn::SyncBatchNorm(67), nn::ReLU(), nn::Dropout(0.3), nn::Linear(67, 2));
}

using Count = std::function<std::uint64_t(const OperationCounts&)>;

class TrainingFaults : public ::testing::TestWithParam<Setup> {
 protected:
  int count() const { return GetParam().devices; }

  void step() {
    manual_seed(1);  // seeds the dropout
    optimizer_.zero_grad();
    const Tensor output = model_(input_);
    mean(output * output).backward();
    optimizer_.step();
  }

  void wait() {
    for (const Device& device : model_.devices()) synchronize(device);
  }

  // The model's part of a checkpoint, and the parameters of the replicas.
  std::vector<std::vector<double>> state() {
    std::vector<std::vector<double>> all;
    for (const auto& [key, value] : model_.state_dict()) all.push_back(testing::values(value));
    for (const Tensor& parameter : model_.parameters())
      for (const Tensor& replica : testing::other_replicas(parameter)) all.push_back(testing::values(replica));
    return all;
  }

  std::vector<std::uint64_t> counted(const Count& operations) const {
    std::vector<std::uint64_t> counts;
    for (int d = 0; d < count(); ++d) counts.push_back(operations(devices_.counts(d)));
    return counts;
  }

  static StateDict copy_of(const StateDict& state) {
    StateDict copy;
    for (const auto& [key, value] : state) copy.add(key, value.clone());
    return copy;
  }

  // The number of operations that each device reaches in a step; also notes their names.
  std::vector<std::uint64_t> operations_of_a_step(const Count& operations) {
    const std::vector<std::uint64_t> before = counted(operations);
    const Trace trace;
    step();
    wait();
    for (const TraceEvent& event : trace.events()) names_.insert(event.name);
    std::vector<std::uint64_t> reached = counted(operations);
    std::ranges::transform(reached, before, reached.begin(), std::minus());
    return reached;
  }

  void expect_tells(const Error& error, const std::string& operation, const std::string& where) const {
    EXPECT_TRUE(names_.contains(operation)) << error.what();
    EXPECT_TRUE(std::string(error.what()).starts_with("[" + operation + "] " + where)) << error.what();
  }

  void expect_names(const OutOfMemory& error, int d) const {
    EXPECT_EQ(error.device, Device::cuda(d).name());
    expect_tells(error, "allocate", error.device);
  }
  void expect_names(const BackendError& error, int d) const {
    EXPECT_EQ(error.device, Device::cuda(d).name());
    expect_tells(error, error.api, "failed on " + error.device);
  }
  // The collective failed itself, or because of earlier work on its rank.
  void expect_names(const CollectiveError& error, int d) const {
    EXPECT_EQ(error.rank, d);
    expect_tells(error, error.operation, "failed on rank " + std::to_string(error.rank));
    ASSERT_FALSE(error.attached().empty());
    try {
      std::rethrow_exception(error.attached()[0]);
    } catch (const BackendError& cause) {
      expect_names(cause, d);
    }
  }

  // True if one device's error of a launch or copy can also reach others through a collective.
  template <class E>
  static constexpr bool kTravels = std::same_as<E, BackendError>;

  // (How many units are copied ahead depends on what was used before: with sharded parameters a step may have fewer
  // operations than another one.)
  template <class E>
  void expect_step_throws(int d) {
    const auto start = std::chrono::steady_clock::now();
    try {
      step();
      wait();
      EXPECT_EQ(GetParam().shard, Shard::parameters) << "nothing was thrown";
      ++not_reached_;
    } catch (const E& error) {
      expect_names(error, d);
    } catch (const Error& error) {
      const auto* const collective = dynamic_cast<const CollectiveError*>(&error);
      if (!kTravels<E> || !collective) throw;
      expect_names(*collective, d);
    }
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
  }

  template <class E>
  void try_all(const Count& operations, const std::function<void(FaultInjector&, Fault)>& inject) {
    for (int i = 0; i < 3; ++i) step();
    wait();
    const StateDict model = copy_of(model_.state_dict()), optimizer = copy_of(optimizer_.state_dict());
    const auto go_back = [&] {
      model_.load_state_dict(model);
      optimizer_.load_state_dict(optimizer);
    };
    go_back();  // as before each fault: loaded state lies in as few segments as possible
    const std::vector<std::uint64_t> reached = operations_of_a_step(operations);
    ASSERT_GT(std::accumulate(reached.begin(), reached.end(), std::uint64_t(0)), 0u);
    const std::vector<std::vector<double>> right = state();
    optimizer_.zero_grad();
    const std::vector<std::size_t> in_use = testing::memory_in_use(count());
    // With sanitizers, try only every fifth of the larger model's operations.
    const auto stride = std::uint64_t(GetParam().norm ? testing::kStride : 1);
    for (int d = 0; d < count(); ++d)
      for (std::uint64_t n = 1; n <= reached[std::size_t(d)]; n += stride) {
        SCOPED_TRACE("operation " + std::to_string(n) + " on cuda:" + std::to_string(d));
        go_back();
        wait();
        inject(devices_.fault(), {.device = d, .nth = n});
        expect_step_throws<E>(d);
        devices_.fault().clear();
        testing::drain<std::conditional_t<kTravels<E>, Error, E>>(count());
        optimizer_.zero_grad();
        EXPECT_EQ(testing::memory_in_use(count()), in_use);
        go_back();
        step();
        wait();
        EXPECT_EQ(state(), right);
      }
    EXPECT_LE(not_reached_, 2 * count());
  }

  int not_reached_ = 0;
  SimulatedDevices devices_{{.count = count()}};
  DataParallel<nn::Sequential> model_{model_of(GetParam()),
                                      {.buckets = {.first_bytes = 64, .bytes = 128}, .shard = GetParam().shard}};
  optim::SGD optimizer_{model_.parameters(), {.lr = 0.1, .momentum = 0.9}};
  Tensor input_ = randn({11, 5});
  std::set<std::string> names_ = {"allocate"};  // of operations
};

TEST_P(TrainingFaults, AllocationThrowsOutOfMemory) {
  try_all<OutOfMemory>(&OperationCounts::allocations,
                       [](FaultInjector& fault, Fault at) { fault.fail_allocation(at); });
}

TEST_P(TrainingFaults, LaunchThrowsBackendError) {
  try_all<BackendError>(&OperationCounts::launches, [](FaultInjector& fault, Fault at) { fault.fail_launch(at); });
}

TEST_P(TrainingFaults, CopyThrowsBackendError) {
  try_all<BackendError>(&OperationCounts::copies, [](FaultInjector& fault, Fault at) { fault.fail_copy(at); });
}

TEST_P(TrainingFaults, CollectiveThrowsCollectiveError) {
  try_all<CollectiveError>(&OperationCounts::collectives,
                           [](FaultInjector& fault, Fault at) { fault.fail_collective(at); });
}

TEST_P(TrainingFaults, LostDeviceThrowsBackendError) {
  try_all<BackendError>(
      [](const OperationCounts& counts) { return counts.launches + counts.copies + counts.collectives; },
      [](FaultInjector& fault, Fault at) { fault.lose_device(at); });
}

INSTANTIATE_TEST_SUITE_P(
    Devices, TrainingFaults,
    ::testing::Values(Setup{.devices = 2}, Setup{.devices = 3}, Setup{.devices = 5},
                      Setup{.devices = 2, .shard = Shard::optimizer_state},
                      Setup{.devices = 5, .shard = Shard::optimizer_state},
                      Setup{.devices = 3, .shard = Shard::gradients}, Setup{.devices = 2, .shard = Shard::parameters},
                      Setup{.devices = 3, .shard = Shard::parameters}, Setup{.devices = 2, .norm = true},
                      Setup{.devices = 3, .shard = Shard::optimizer_state, .norm = true},
                      Setup{.devices = 5, .norm = true}),
    [](const auto& test) {
      return text(test.param.devices, "Devices_", test.param.shard, test.param.norm ? "_norm" : "");
    });

}  // namespace
}  // namespace lockstep
