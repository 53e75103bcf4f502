// The CUDA backend's calls of CUDA and their timing, on a fake CUDA that counts: which calls make a card current, how
// often polls check for failures, and what must not be called while ranks of a collective wait for each other.
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include <lockstep/core/error.h>
#include <lockstep/runtime/communicator.h>
#include <lockstep/runtime/stream.h>
#include <lockstep/tensor/creation.h>

#include "cuda/fake_devices.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

int card_switches() {
  const auto held = fake::lock();
  return machine().card_switches;
}

// Makes the calls of a training step on one device, and on events of another.
void use_device(int device) {
  const Stream stream = Stream::default_stream(Device::cuda(device));
  const StreamHandle handle = card(device).stream(0);
  const DeviceBytes memory(device, numbered(5000));
  card(device).backend.launch(handle, {}, [](const KernelContext&) {});
  const cuda::Event event = stream.record();
  stream.wait(event);
  event.query();
  stream.query();
  memory.get();
  event.synchronize();
  stream.synchronize();
}

TEST(FakeCuda, AThreadMakesItsCardCurrentOnce) {
  const FakeDevices devices({.cards = {0, 1}});
  for (int i = 0; i < 2; ++i) use_device(1);  // the first calls create streams, buffers and events
  std::thread([] {
    const int before = card_switches();
    for (int i = 0; i < 10; ++i) use_device(1);
    EXPECT_EQ(card_switches(), before + 1);
  }).join();
}

TEST(FakeCuda, EventsStreamsAndCopiesOfAnyCardNeedNoSwitch) {
  const FakeDevices devices({.cards = {0, 1}});
  use_device(1);
  use_device(0);
  const Stream stream = Stream::default_stream("cuda:1");
  const DeviceBytes memory(1, numbered(5000));
  stream.synchronize();
  card(0).backend.launch(card(0).stream(0), {}, [](const KernelContext&) {});
  const int before = card_switches();
  for (int i = 0; i < 10; ++i) {
    const cuda::Event event = stream.record();
    Stream::default_stream("cuda:0").wait(event);
    memory.get();
    event.synchronize();
    stream.synchronize();
  }
  EXPECT_EQ(card_switches(), before);
}

TEST(FakeCuda, WaitsForOneCardsEventsMakeNoContextOnTheFirst) {
  const FakeDevices devices({.cards = {0, 1}});
  std::optional<cuda::Event> event;
  std::thread([&] { event.emplace(Stream::default_stream("cuda:1").record()); }).join();
  std::thread([&] {
    while (!event->query()) {
    }
    event->synchronize();
  }).join();
  EXPECT_EQ(machine().contexts, (std::set<int>{1}));
}

// Two cards with a collective.
class FakeRanks : public ::testing::Test {
 protected:
  void enqueue() {
    std::vector<RankBuffers> buffers;
    for (int rank = 0; rank < 2; ++rank)
      buffers.push_back({streams[std::size_t(rank)], memory[rank].data(), memory[rank].data()});
    communicator.all_reduce(buffers, 25, kFloat32);
  }

  FakeDevices devices{{.cards = {0, 1}}};
  Communicator communicator{std::vector<Device>{"cuda:0", "cuda:1"}};
  std::vector<Stream> streams{Stream::default_stream("cuda:0"), Stream::default_stream("cuda:1")};
  DeviceBytes memory[2] = {{0, Bytes(100)}, {1, Bytes(100)}};
};

TEST_F(FakeRanks, PollsLookForFailuresAboutOnceAMillisecond) {
  machine().collectives_hang = true;
  enqueue();
  const cuda::Event after = streams[0].record();
  const int before = machine().questions;
  const auto begin = Clock::now();
  constexpr int kPolls = 20'000;
  for (int i = 0; i < kPolls; ++i) EXPECT_FALSE(after.query());
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin).count();
  EXPECT_LE(machine().questions - before, 2 * (ms + 2)) << "of two ranks in " << ms << " ms and " << kPolls << " polls";
  communicator.abort();
  EXPECT_THROW(streams[0].synchronize(), CollectiveError);
}

// Calls that may wait for a card must come before or after the launches of all ranks of a collective.
struct Beside {
  const char* name;
  std::function<std::function<void()>()> prepare;  ///< Returns the call to make beside the collective.
};

class FakeRanksBeside : public FakeRanks, public testing::WithParamInterface<Beside> {};

TEST_P(FakeRanksBeside, WaitsUntilAllRanksAreLaunched) {
  const std::function<void()> act = GetParam().prepare();
  machine().launch_one_rank = true;
  std::thread collective([&] { enqueue(); });
  const auto waits = [] {
    const auto held = fake::lock();
    return machine().rank_waits;
  };
  while (!waits()) std::this_thread::yield();
  std::thread beside(act);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // enough time for the call to return
  {
    const auto held = fake::lock();
    EXPECT_EQ(machine().complaint, "");
    machine().launch_one_rank = false;
  }
  collective.join();
  beside.join();
  for (const Stream& stream : streams) stream.synchronize();
  machine().complaint = "";
}

std::function<void()> product_of(std::int64_t size) {
  const auto memory = std::make_shared<DeviceBytes>(0, std::size_t(64) * sizeof(float));
  return [memory, size] {
    card(0).backend.matmul(memory->stream(), {.m = size,
                                              .n = size,
                                              .k = size,
                                              .a = memory->data(),
                                              .b = memory->data(),
                                              .c = memory->data(),
                                              .lda = size,
                                              .ldb = size,
                                              .ldc = size});
  };
}

INSTANTIATE_TEST_SUITE_P(
    Everything, FakeRanksBeside,
    testing::Values(
        Beside{"AnAllocation", [] { return [] { const DeviceBytes memory(0, 30 << 20); }; }},
        Beside{"AStream", [] { return [] { card(0).stream(5); }; }},
        Beside{"TheFirstCopyToAnotherCard",
               [] {
                 const auto from = std::make_shared<DeviceBytes>(0, Bytes(100));
                 const auto to = std::make_shared<DeviceBytes>(1, Bytes(100));
                 return [from, to] {
                   from->copy(
                       {.to = to->data(), .from = from->data(), .to_device = 1, .from_device = 0, .row_bytes = 100});
                 };
               }},
        Beside{"TheFirstProduct", [] { return product_of(3); }},
        Beside{"TheFirstProductOfAKind",
               [] {
                 product_of(2)();
                 return product_of(4);
               }},
        Beside{"TheFirstLaunchOfAKernel",
               [] {
                 const auto tensor = std::make_shared<Tensor>(
                     from_host(std::array<double, 2>{}.data(), 2, kFloat64, {2}, {.device = "cuda:0"}));
                 return [tensor] { Tensor(*tensor).fill_(2); };
               }},
        Beside{"TheEndOfACommunicator",
               [] {
                 const auto other = std::make_shared<std::optional<Communicator>>(
                     std::in_place, std::vector<Device>{"cuda:0", "cuda:1"});
                 return [other] { other->reset(); };
               }}),
    [](const auto& each) { return std::string(each.param.name); });

TEST(FakeCuda, ADriverThatIsTooOldIsAnErrorThatNamesBothVersions) {
  machine() = {};
  machine().driver_version = 12040;
  try {
    find_cuda_cards();
    ADD_FAILURE() << "no error";
  } catch (const BackendError& error) {
    EXPECT_EQ(error.code, 35);
    EXPECT_NE(std::string(error.what()).find("expected a driver for CUDA 13.0 or newer, got one for CUDA 12.4"),
              std::string::npos)
        << error.what();
  }
  machine() = {};
  EXPECT_EQ(find_cuda_cards().count, 0);
}

// Sets an environment variable for a scope.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* const outer = std::getenv(name)) outer_ = outer;
    value ? ::setenv(name, value, 1) : ::unsetenv(name);
  }
  ~Variable() { outer_ ? ::setenv(name_, outer_->c_str(), 1) : ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> outer_;
};

TEST(FakeCuda, BlockingLaunchesAreRefusedWithSeveralCards) {
  const FakeDevices devices({.cards = {0, 1}});
  const Variable blocking("CUDA_LAUNCH_BLOCKING", "1");
  try {
    make_cuda_backend({.cards = {0, 1}});
    ADD_FAILURE() << "no error";
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("[cuda] expected CUDA_LAUNCH_BLOCKING=0 or not set with 2 cards"),
              std::string::npos)
        << error.what();
  }
  EXPECT_NO_THROW(make_cuda_backend({.cards = {0, 0}}));
  const Variable not_blocking("CUDA_LAUNCH_BLOCKING", "0");
  EXPECT_NO_THROW(make_cuda_backend({.cards = {0, 1}}));
}

TEST(FakeCuda, AnAlgorithmThatIsNotFilledInIsNotUsed) {
  const FakeDevices devices({.cards = {0}});
  const std::function<void()> product = product_of(3);
  machine().algorithms = false;
  EXPECT_THROW(product(), BackendError);
  machine().algorithms = true;
  EXPECT_NO_THROW(product());
}

std::string said_with(CudaOptions options) {
  testing::internal::CaptureStderr();
  make_cuda_backend(options);
  return testing::internal::GetCapturedStderr();
}

TEST(FakeCuda, WhatIsSetInTheEnvironmentForNcclIsSaid) {
  const FakeDevices devices({.cards = {0}});
  const Variable nvls("NCCL_NVLS_ENABLE", nullptr), order("NCCL_LAUNCH_ORDER_IMPLICIT", nullptr),
      algorithm("NCCL_ALGO", nullptr), protocol("NCCL_PROTO", nullptr);
  EXPECT_EQ(said_with({.cards = {0, 0}}), "");  // but set, since other processes may have more cards
  EXPECT_STREQ(std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT"), "1");
  EXPECT_STREQ(std::getenv("NCCL_NVLS_ENABLE"), "0");
  ::unsetenv("NCCL_LAUNCH_ORDER_IMPLICIT");
  ::unsetenv("NCCL_NVLS_ENABLE");
  const std::string said = said_with({.cards = {0, 1}});
  for (const char* setting : {"NCCL_NVLS_ENABLE=0", "NCCL_LAUNCH_ORDER_IMPLICIT=1"})
    EXPECT_NE(said.find(setting), std::string::npos) << said;
  EXPECT_STREQ(std::getenv("NCCL_NVLS_ENABLE"), "0");
  EXPECT_EQ(std::getenv("NCCL_ALGO"), nullptr);
  EXPECT_EQ(std::getenv("NCCL_PROTO"), nullptr);
  EXPECT_EQ(said_with({.cards = {0, 1}}), "");
}

TEST(FakeCuda, WhatTheUserHasSetForNcclStays) {
  const FakeDevices devices({.cards = {0}});
  const Variable nvls("NCCL_NVLS_ENABLE", "2"), order("NCCL_LAUNCH_ORDER_IMPLICIT", "0");
  EXPECT_EQ(said_with({.cards = {0, 1}}), "");
  EXPECT_STREQ(std::getenv("NCCL_NVLS_ENABLE"), "2");
  EXPECT_STREQ(std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT"), "0");
}

}  // namespace
}  // namespace lockstep
