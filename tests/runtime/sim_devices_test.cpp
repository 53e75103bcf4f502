// SimulatedDevices replaces cuda:* for a scope, with faults, counts and a report of leaks.
#include <lockstep/core/error.h>
#include <lockstep/runtime/memory.h>
#include <lockstep/runtime/simulation.h>
#include <lockstep/runtime/stream.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <future>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/fake_backend.h"
#include "runtime/registry.h"
#include "runtime/sim_fixture.h"

namespace lockstep::sim {
namespace {

constexpr std::size_t kBytes = 1024;

struct Buffer {
  explicit Buffer(Device device, std::size_t size = kBytes)
      : state(device_state(device)), allocation(state.allocator.allocate(size, current_stream_handle(state))) {}
  ~Buffer() { state.allocator.free(allocation.block); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void write(const char* name = "write") const {
    const MemoryAccess access = {{allocation.memory, kBytes, 1, 0}, AccessKind::write};
    state.backend.launch(current_stream_handle(state), {name, 0, {&access, 1}}, [](const KernelContext&) {});
  }
  float first() const {
    float value = 0;
    state.backend.copy(current_stream_handle(state),
                       {&value, allocation.memory, kHost, state.device.index(), sizeof value, 1, 0, 0});
    return value;
  }

  DeviceState& state;
  CachingAllocator::Allocation allocation;
};

TEST(SimulatedDevices, ReplaceTheGpusInTheirScopeAndNest) {
  const int outside = cuda::device_count();
  {
    SimulatedDevices three({.count = 3, .memory_bytes = 64 << 20});
    EXPECT_EQ(cuda::device_count(), 3);
    EXPECT_EQ(properties("cuda:2").name, "Simulated GPU");
    EXPECT_EQ(properties("cuda:2").memory_bytes, std::size_t(64) << 20);
    {
      SimulatedDevices five({.count = 5});
      EXPECT_EQ(cuda::device_count(), 5);
    }
    EXPECT_EQ(cuda::device_count(), 3);
  }
  EXPECT_EQ(cuda::device_count(), outside);
}

TEST(SimulatedDevices, RefuseOptionsThatMakeNoSense) {
  EXPECT_THROW(SimulatedDevices({.count = 0}), InvalidArgument);
  EXPECT_THROW(SimulatedDevices({.count = 65}), InvalidArgument);
  EXPECT_THROW(SimulatedDevices({.max_delay_us = -1}), InvalidArgument);
  EXPECT_NO_THROW(SimulatedDevices({.count = 64}));
}

TEST(SimulatedDevices, MemoryIsPoisonedWhenAllocated) {
  SimulatedDevices devices({.count = 1});
  const Buffer buffer("cuda:0");
  const float value = buffer.first();
  EXPECT_NE(value, value);
}

TEST(SimulatedDevices, MemoryIsPoisonedWhenFreed) {
  SimulatedDevices devices({.count = 1});
  DeviceState& state = device_state("cuda:0");
  const StreamHandle stream = current_stream_handle(state);
  const auto allocation = state.allocator.allocate(kBytes, stream);
  const float one = 1;
  state.backend.copy(stream, {allocation.memory, &one, 0, kHost, sizeof one, 1, 0, 0});
  state.allocator.free(allocation.block);
  float value = 0;  // read after free: the segment is cached, so only the poison shows it
  state.backend.copy(stream, {&value, allocation.memory, kHost, 0, sizeof value, 1, 0, 0});
  EXPECT_NE(value, value);
}

TEST(SimulatedDevices, CountOperations) {
  SimulatedDevices devices({.count = 2});
  const Buffer buffer("cuda:1");
  buffer.write();
  buffer.first();
  const Stream side = Stream::from_pool("cuda:1");
  side.wait(current_stream("cuda:1").record());
  EXPECT_EQ(devices.counts(1).allocations, 1u);
  EXPECT_EQ(devices.counts(1).launches, 1u);
  EXPECT_EQ(devices.counts(1).copies, 1u);
  EXPECT_EQ(devices.counts(1).events, 1u);
  EXPECT_EQ(devices.counts(1).waits, 1u);
  EXPECT_EQ(devices.counts(0).allocations, 0u);
  EXPECT_THROW(devices.counts(2), InvalidArgument);
}

TEST(SimulatedDevices, AFailedAllocationIsOutOfMemory) {
  SimulatedDevices devices({.count = 2});
  devices.fault().fail_allocation({.device = 1, .nth = 2});
  const Buffer first("cuda:1");
  EXPECT_THROW(Buffer("cuda:1"), OutOfMemory);
  const Buffer third("cuda:1");
}

TEST(SimulatedDevices, ALostDeviceRefusesAllocationsToo) {
  SimulatedDevices devices({.count = 2});
  const Buffer buffer("cuda:0");
  devices.fault().lose_device({.device = 0});
  buffer.write();
  EXPECT_THROW(synchronize("cuda:0"), BackendError);
  EXPECT_THROW(Buffer("cuda:0"), BackendError);
  const Buffer other("cuda:1");
  devices.fault().clear();
  const Buffer again("cuda:0");
  again.write();
  synchronize("cuda:0");
}

TEST(SimulatedDevices, ADroppedWaitOrRecordIsARace) {
  for (const bool drop_wait : {true, false}) {
    SimulatedDevices devices({.count = 1});
    const Buffer buffer("cuda:0");
    const Stream side = Stream::from_pool("cuda:0");
    const auto use_on_both = [&] {
      buffer.write("first");
      side.wait(current_stream("cuda:0").record());
      const StreamGuard guard(side);
      buffer.write("second");
      Stream::default_stream("cuda:0").wait(side.record());
    };
    use_on_both();
    drop_wait ? devices.fault().drop_wait({}) : devices.fault().drop_record({});
    EXPECT_THROW(use_on_both(), RaceError);
    synchronize("cuda:0");
  }
}

TEST(SimulatedDevices, ABlockFreedWhileAnotherStreamUsesItIsARaceUnlessRecorded) {
  for (const bool recorded : {true, false}) {
    SimulatedDevices devices({.count = 1});
    const Stream side = Stream::from_pool("cuda:0");
    {
      const Buffer buffer("cuda:0");
      const StreamHandle handle = StreamAccess::handle(side);
      if (recorded) buffer.state.allocator.record_stream(buffer.allocation.block, handle);
      side.wait(current_stream("cuda:0").record());
      const StreamGuard guard(side);
      buffer.write("side");
    }
    if (recorded)
      synchronize("cuda:0");
    else
      EXPECT_THROW(synchronize("cuda:0"), RaceError);
  }
}

TEST(SimulatedDevices, LeaksAreReportedAndKeptAlive) {
  ::testing::internal::CaptureStderr();
  {
    CachingAllocator::Allocation leak;
    {
      SimulatedDevices devices({.count = 2});
      leak = device_state("cuda:1").allocator.allocate(kBytes, current_stream_handle(device_state("cuda:1")));
    }
    static_cast<volatile std::byte*>(leak.memory)[0] = std::byte(1);
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "[sim] leak on cuda:1: 1024 bytes in use (blocks: 1) at the end of its simulation\n");
}

TEST(SimulatedDevices, AStreamGuardBringsBackTheStreamOfTheOneAroundIt) {
  const SimulatedDevices devices({.count = 1});
  const Stream outer = Stream::from_pool("cuda:0"), inner = Stream::from_pool("cuda:0");
  const StreamGuard around(outer);
  {
    const StreamGuard inside(inner);
    EXPECT_EQ(current_stream("cuda:0"), inner);
  }
  EXPECT_EQ(current_stream("cuda:0"), outer);
}

TEST(SimulatedDevices, SynchronizeTellsTheFailuresOfAllStreamsAtOnce) {
  SimulatedDevices devices({.count = 1});
  const Buffer buffer("cuda:0");
  devices.fault().fail_launch({.count = 2});
  buffer.write("first");
  {
    const StreamGuard side(Stream::from_pool("cuda:0"));
    Buffer("cuda:0").write("second");
  }
  try {
    synchronize("cuda:0");
    ADD_FAILURE() << "nothing was thrown";
  } catch (const BackendError& error) {
    EXPECT_EQ(error.api, "first");
    ASSERT_EQ(error.attached().size(), 1u);
    EXPECT_THROW(std::rethrow_exception(error.attached()[0]), BackendError);
  }
  synchronize("cuda:0");  // reported once only
}

TEST(SimulatedDevices, SynchronizeTellsTheFailureOfOneStreamWhicheverItIs) {
  SimulatedDevices devices({.count = 1});
  std::vector<int> failed;
  for (const StreamPriority priority : {StreamPriority::normal, StreamPriority::high})
    for (Stream stream = Stream::from_pool("cuda:0", priority);
         std::find(failed.begin(), failed.end(), stream.id()) == failed.end();
         stream = Stream::from_pool("cuda:0", priority)) {
      devices.fault().fail_launch({});
      const StreamGuard on(stream);
      Buffer("cuda:0").write();
      EXPECT_THROW(synchronize("cuda:0"), BackendError) << stream.id();
      failed.push_back(stream.id());
    }
  EXPECT_GT(failed.size(), 2u);
}

TEST(SimulatedDevices, LiveAsLongAsAnEventOfTheirs) {
  std::weak_ptr<DeviceSet> there;
  std::optional<cuda::Event> event;
  {
    SimulatedDevices devices({.count = 1});
    there = accelerators();
    event.emplace(current_stream("cuda:0").record());
  }
  EXPECT_FALSE(there.expired());
  event->synchronize();
  event.reset();
  EXPECT_TRUE(there.expired());
}

TEST(SimulatedDevices, AreWaitedForByTheCpusStream) {
  SimulatedDevices devices({.count = 1});
  std::promise<void> go;
  std::future<void> gate = go.get_future();
  DeviceState& state = device_state("cuda:0");
  state.backend.launch(current_stream_handle(state), {"held", 0, {}},
                       [held = gate.share()](const KernelContext&) { held.wait(); });
  const cuda::Event event = current_stream("cuda:0").record();
  auto waiting = std::async(std::launch::async, [&] { Stream::default_stream(Device()).wait(event); });
  EXPECT_EQ(waiting.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  go.set_value();
  waiting.get();
  EXPECT_TRUE(event.query());
}

// The simulation ignores priorities, so the test asks a fake backend.
TEST(DeviceState, MakesTheStreamsOfEachPoolWithItsPriority) {
  FakeBackend backend;
  DeviceState state(Device::cuda(0), backend);
  for (const StreamPool pool : {StreamPool::normal, StreamPool::high, StreamPool::exchanges})
    state.stream(state.next_pooled_stream(pool));
  EXPECT_EQ(backend.priorities(), (std::vector{StreamPriority::normal, StreamPriority::high, StreamPriority::high}));
}

TEST(SimulatedDevices, AnErrorThatNobodyWaitedForIsReported) {
  ::testing::internal::CaptureStderr();
  {
    SimulatedDevices devices({.count = 1});
    const Buffer buffer("cuda:0");
    devices.fault().fail_launch({});
    buffer.write("forgotten");
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "[sim] an asynchronous error was not reported before the simulation ended (no synchronize() came after the "
            "work): [forgotten] failed on cuda:0 with code 719: an injected fault\n");
}

// The child lacks the worker thread that would complete the work, and must not wait for it.
TEST(SimulatedDevices, AForkedProcessEndsWhileItsParentsWorkIsPending) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer does not follow a fork of several threads";
#endif
  SimulatedDevices devices({.count = 1});
  DeviceState& state = device_state("cuda:0");
  std::promise<void> gate;
  const auto block = [opened = gate.get_future().share()](const KernelContext&) { opened.wait(); };
  state.backend.launch(current_stream_handle(state), {"block", 0, {}}, block);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    std::exit(0);
  }
  ASSERT_GT(child, 0);
  int status = 0;
  ::waitpid(child, &status, 0);
  gate.set_value();
  EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
}

}  // namespace
}  // namespace lockstep::sim
