// Batches that a loader copies to a device ahead of the loop. Simulated devices report accesses that no event orders.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <lockstep/data/loader.h>
#include <lockstep/data/tensor_dataset.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/runtime/memory.h>
#include <lockstep/runtime/simulation.h>
#include <lockstep/runtime/trace.h>
#include <lockstep/tensor/creation.h>

#include "kernels/launch.h"
#include "support/no_devices.h"
#include "support/test_devices.h"
#include "support/thrown.h"
#include "tensor/tensor_impl.h"

namespace lockstep::data {
namespace {

using Values = std::vector<std::vector<float>>;
using testing::thrown;

template <class Condition>
bool happens(const Condition& condition) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition() && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  return condition();
}

const Tensor& rows() {
  static const Tensor all = arange(0, 40).to(kFloat32).view({20, 2});
  return all;
}

TEST(DataLoaderDevice, GivesTheSameBatchesThere) {
  const TestDevices devices(2);
  for (const int workers : {0, 2})
    for (const char* const device : {"cpu", "cuda:0", "cuda:1"}) {
      DataLoader plain(TensorDataset(rows(), rows()), {.batch_size = 3, .shuffle = true, .seed = 2});
      DataLoader loader(TensorDataset(rows(), rows()),
                        {.batch_size = 3, .shuffle = true, .seed = 2, .num_workers = workers, .device = device});
      for (int epoch = 0; epoch < 2; ++epoch) {
        Values expected, got;
        for (const auto& [x, y] : plain) expected.push_back((x + y).to_vector<float>());
        for (const auto& [x, y] : loader) {
          EXPECT_EQ(x.device(), Device(device));
          got.push_back((x + y).to_vector<float>());
        }
        EXPECT_EQ(got, expected) << workers << ' ' << device;
      }
    }
}

// The next batch is copied while a kernel on the current batch is still blocked.
TEST(DataLoaderDevice, CopiesTheNextBatchWhileTheDeviceComputes) {
  const SimulatedDevices devices({.count = 1});
  const auto released = std::make_shared<std::atomic<bool>>(false);
  for (const bool pinned : {false, true})
    for (const int workers : {0, 1}) {
      *released = false;
      synchronize("cuda:0");
      const Trace trace;
      DataLoader loader(TensorDataset{rows()},
                        {.batch_size = 10, .num_workers = workers, .device = "cuda:0", .pin_memory = pinned});
      const auto copies = [&] {
        std::vector<TraceEvent> found;
        for (const TraceEvent& event : trace.events())
          if (event.kind == (pinned ? TraceKind::copy_from_pinned : TraceKind::copy_from_host)) found.push_back(event);
        return found;
      };
      auto it = loader.begin();
      const Tensor result = empty({1}, {.device = "cuda:0"});
      launch("compute", 0, result, std::array<const Tensor*, 1>{&*it},
             [released](const KernelContext&) { happens([&] { return released->load(); }); });
      if (workers > 0) ++it;  // in case the worker was late: the second batch is copied by now
      EXPECT_TRUE(happens([&] { return copies().size() >= 2; })) << workers;
      *released = true;
      synchronize("cuda:0");
      const std::vector<TraceEvent> events = trace.events();
      const auto compute = std::ranges::find(events, "compute", &TraceEvent::name);
      ASSERT_TRUE(compute != events.end());
      const TraceEvent copy = copies().at(1);
      EXPECT_NE(copy.stream, compute->stream);
      EXPECT_LT(copy.end_us, compute->end_us) << "the copy waited for the kernel";
      EXPECT_LT(compute->start_us, compute->end_us);
    }
}

TEST(DataLoaderDevice, OrdersItsCopiesBeforeAndAfterTheLoopsWork) {
  const SimulatedDevices devices({.count = 1, .max_delay_us = 300});
  const StreamGuard guard(Stream::from_pool("cuda:0"));
  DataLoader loader(TensorDataset{rows()}, {.batch_size = 2, .num_workers = 2, .device = "cuda:0"});
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::vector<Tensor> sums;
    for (const Tensor& batch : loader) sums.push_back(sum(batch * 2));  // frees the batch's memory for later batches
    float all = 0;
    for (const Tensor& each : sums) all += each.item<float>();
    EXPECT_EQ(all, 2 * 39 * 40 / 2);
  }
}

TEST(DataLoaderDevice, TakesNoNewMemoryOnceItRuns) {
  const SimulatedDevices devices({.count = 1});
  DataLoader loader(TensorDataset{rows()}, {.batch_size = 4, .device = "cuda:0"});
  const auto epoch = [&] {
    for (const Tensor& batch : loader) {
      sum(batch);
      synchronize("cuda:0");
    }
  };
  epoch();
  const std::uint64_t before = memory_stats("cuda:0").backend_allocations;
  for (int i = 0; i < 40; ++i) epoch();
  EXPECT_EQ(memory_stats("cuda:0").backend_allocations, before);
}

struct Fifth {
  std::int64_t size() const { return 8; }
  Tensor get(std::int64_t index) const {
    if (index == 5) throw InvalidArgument("broken");
    return tensor(double(index));
  }
};

// The batch is made, and fails, while the loop still has the batch before it.
TEST(DataLoaderDevice, ThrowsAnErrorWhereItsBatchIsDue) {
  const TestDevices devices(1);
  for (const int workers : {0, 2}) {
    DataLoader loader(Fifth(), {.batch_size = 2, .num_workers = workers, .device = "cuda:0"});
    auto it = loader.begin();
    ++it;
    EXPECT_EQ(it->to_vector<float>(), (std::vector<float>{2, 3}));
    EXPECT_EQ(loader.state().batch, 2);
    EXPECT_EQ(thrown<InvalidArgument>([&] { ++it; }), "broken (in sample 5)");
    EXPECT_TRUE(it == loader.end());
    EXPECT_EQ(loader.state().batch, 2);
  }
}

TEST(DataLoaderDevice, ResumesAtTheBatchThatTheLoopHasNotHad) {
  const TestDevices devices(1);
  const LoaderOptions options = {.batch_size = 3, .shuffle = true, .seed = 2, .device = Device("cuda:0")};
  DataLoader loader(TensorDataset{rows()}, options);
  auto it = loader.begin();
  const LoaderState state = loader.state();
  ++it;
  const std::vector<float> second = it->to_vector<float>();
  DataLoader resumed(TensorDataset{rows()}, options);
  resumed.load_state(state);
  EXPECT_EQ(resumed.begin()->to_vector<float>(), second);
}

TEST(DataLoaderDevice, OutlivesSimulatedDevices) {
  DataLoader loader(TensorDataset{rows()}, {.batch_size = 20, .device = "cuda:0"});
  for (int scope = 0; scope < 2; ++scope) {
    const SimulatedDevices devices({.count = 1});
    for (const Tensor& batch : loader) EXPECT_EQ(batch.to_vector<float>(), rows().to_vector<float>());
  }
}

TEST(DataLoaderDevice, RefusesADeviceThatIsNotThere) {
  const SimulatedDevices devices({.count = 1});
  DataLoader loader(TensorDataset{rows()}, {.device = "cuda:5"});
  EXPECT_THROW(loader.begin(), InvalidArgument);
}

TEST(PinnedBatches, AreMadeByTheWorkersOrTheLoop) {
  const TestDevices devices(1);
  for (const int workers : {0, 2}) {
    DataLoader loader(TensorDataset(rows(), rows()),
                      {.batch_size = 3, .shuffle = true, .seed = 2, .num_workers = workers, .pin_memory = true});
    DataLoader plain(TensorDataset(rows(), rows()), {.batch_size = 3, .shuffle = true, .seed = 2});
    Values expected, got;
    for (const auto& [x, y] : plain) {
      EXPECT_FALSE(x.is_pinned());
      expected.push_back((x + y).to_vector<float>());
    }
    for (const auto& [x, y] : loader) {
      EXPECT_TRUE(x.is_pinned() && y.is_pinned());
      EXPECT_EQ(x.device(), Device());
      got.push_back((x.to("cuda:0") + y.to("cuda:0")).to_vector<float>());
    }
    EXPECT_EQ(got, expected);
  }
}

TEST(PinnedBatches, GoToADeviceUnlessTheLoaderIsToldOtherwise) {
  const SimulatedDevices devices({.count = 1});
  const auto kinds = [](LoaderOptions options) {
    options.batch_size = 10;
    const Trace trace;
    for (const Tensor& batch : DataLoader(TensorDataset{rows()}, options)) sum(batch.to("cuda:0"));
    synchronize("cuda:0");
    std::vector<TraceKind> found;
    for (const TraceEvent& event : trace.events())
      if (event.kind == TraceKind::copy_from_pinned || event.kind == TraceKind::copy_from_host)
        found.push_back(event.kind);
    return found;
  };
  using Kinds = std::vector<TraceKind>;
  const Kinds pinned(2, TraceKind::copy_from_pinned), pageable(2, TraceKind::copy_from_host);
  EXPECT_EQ(kinds({.device = "cuda:0"}), pinned);
  EXPECT_EQ(kinds({.device = "cuda:0", .pin_memory = false}), pageable);
  EXPECT_EQ(kinds({}), pageable);
  EXPECT_EQ(kinds({.device = Device()}), pageable);
  EXPECT_EQ(kinds({.pin_memory = true}), pinned);
}

// The trace shows the copies of two later batches while the kernel on the first batch runs.
TEST(PinnedBatches, AreCopiedInATraceWhileAKernelRuns) {
  const SimulatedDevices devices({.count = 1});
  const auto begun = std::make_shared<std::atomic<bool>>(false), released = std::make_shared<std::atomic<bool>>(false);
  for (const int workers : {0, 2}) {
    *begun = *released = false;
    const Trace trace;
    DataLoader loader(TensorDataset{rows()},
                      {.batch_size = 5, .num_workers = workers, .device = "cuda:0", .pin_memory = true});
    const auto copies = [&] {
      std::vector<TraceEvent> found;
      for (const TraceEvent& event : trace.events())
        if (event.kind == TraceKind::copy_from_pinned) found.push_back(event);
      return found;
    };
    auto it = loader.begin();
    const Tensor result = empty({1}, {.device = "cuda:0"});
    launch("compute", 0, result, std::array<const Tensor*, 1>{&*it}, [begun, released](const KernelContext&) {
      *begun = true;
      happens([&] { return released->load(); });
    });
    EXPECT_TRUE(happens([&] { return begun->load(); }));
    ++it;
    ++it;
    EXPECT_TRUE(happens([&] { return copies().size() >= 3; }));
    *released = true;
    synchronize("cuda:0");
    const std::vector<TraceEvent> events = trace.events();
    const auto compute = std::ranges::find(events, "compute", &TraceEvent::name);
    ASSERT_TRUE(compute != events.end());
    const TraceEvent copy = copies().at(2);
    EXPECT_NE(copy.stream, compute->stream);
    EXPECT_GT(copy.start_us, compute->start_us);
    EXPECT_LT(copy.end_us, compute->end_us);
  }
}

TEST(PinnedBatches, StayAsTheyAreWithoutAGpu) {
  const NoDevices there;
  DataLoader loader(TensorDataset{rows()}, {.batch_size = 20, .pin_memory = true});
  const Tensor batch = *loader.begin();
  EXPECT_FALSE(batch.is_pinned());
  EXPECT_EQ(batch.to_vector<float>(), rows().to_vector<float>());
}

struct OnGpu {
  std::int64_t size() const { return 4; }
  Tensor get(std::int64_t index) const { return full({1}, double(index), "cuda:0"); }
};

TEST(PinnedBatches, StayOnTheGpuThatTheyAreMadeOn) {
  const TestDevices devices(1);
  for (const Tensor& batch : DataLoader(OnGpu(), {.batch_size = 2, .pin_memory = true}))
    EXPECT_EQ(batch.device(), Device("cuda:0"));
}

class Opaque {
 public:
  explicit Opaque(Tensor held) : held_(std::move(held)) {}

 private:
  Tensor held_;
};

TEST(DataLoaderDevice, RefusesBatchesThatHideTheirTensors) {
  const SimulatedDevices devices({.count = 1});
  DataLoader loader(TensorDataset{rows()}, {.batch_size = 2, .device = "cuda:0"},
                    [](std::vector<Tensor> samples) { return Opaque(samples[0]); });
  EXPECT_EQ(thrown<InvalidArgument>([&] { loader.begin(); }),
            "[DataLoader] cannot find the tensors in the batch type, to copy them to the device. Give the struct a "
            "members() function, or use a tuple of tensors");
}

}  // namespace
}  // namespace lockstep::data
