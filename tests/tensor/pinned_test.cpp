// Tensors in page-locked memory: their properties, and copies to GPUs while the host continues.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <lockstep/runtime/simulation.h>
#include <lockstep/runtime/stream.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "kernels/launch.h"
#include "support/no_devices.h"
#include "support/test_devices.h"
#include "support/thrown.h"
#include "tensor/copy.h"
#include "tensor/tensor_impl.h"

namespace lockstep {
namespace {

using testing::thrown;
using Floats = std::vector<float>;

Tensor numbers() { return arange(0, 12).to(kFloat32).view({3, 4}); }

// While it lives, a kernel blocks the current stream of cuda:0.
class Held {
 public:
  Held() : marker_(empty({1}, {.device = "cuda:0"})) {
    launch("held", 0, marker_, std::array<const Tensor*, 0>{}, [released = released_](const KernelContext&) {
      const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (!*released && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    });
  }
  ~Held() { release(); }
  void release() { *released_ = true; }
  /// Releases the stream from another thread, after 50 ms.
  std::jthread released_later() {
    return std::jthread([released = released_] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      *released = true;
    });
  }

 private:
  const std::shared_ptr<std::atomic<bool>> released_ = std::make_shared<std::atomic<bool>>(false);
  const Tensor marker_;
};

TEST(PinnedTensor, IsACopyOnTheCpu) {
  const TestDevices devices(1);
  const Tensor x = numbers();
  EXPECT_FALSE(x.is_pinned());
  const Tensor pinned = x.pin_memory();
  EXPECT_TRUE(pinned.is_pinned());
  EXPECT_EQ(pinned.device(), Device());
  EXPECT_EQ(pinned.dtype(), kFloat32);
  EXPECT_EQ(pinned.sizes(), x.sizes());
  EXPECT_EQ(pinned.to_vector<float>(), x.to_vector<float>());
  EXPECT_NE(pinned.data<float>(), x.data<float>());
  EXPECT_TRUE(pinned.pin_memory().is_same(pinned));
  EXPECT_TRUE(pinned.narrow(1, 1, 2).is_pinned());
  EXPECT_FALSE(pinned.clone().is_pinned());
  EXPECT_FALSE(pinned.to("cuda:0").is_pinned());
  EXPECT_TRUE(empty({0, 3}).pin_memory().is_pinned());
}

TEST(PinnedTensor, IsMadeWhereTheOptionsSaySo) {
  const TestDevices devices(1);
  const TensorOptions pinned = {.pinned_memory = true};
  for (const Tensor& x : {empty({2}, pinned), zeros({2}, pinned), ones({2}, pinned), full({2}, 3, pinned),
                          full({2}, (std::int64_t(1) << 60) + 1, pinned), arange(2, pinned), linspace(0, 1, 3, pinned),
                          eye(3, pinned), tensor({1, 2}, pinned), tensor(2.5, pinned), rand({2}, pinned),
                          randn({2}, pinned), randint(0, 9, {2}, pinned), randperm(5, pinned)}) {
    EXPECT_TRUE(x.is_pinned()) << x.sizes() << x.dtype();
    EXPECT_EQ(x.device(), Device());
  }
  EXPECT_EQ(tensor({1, 2}, {.dtype = kFloat64, .pinned_memory = true}).to_vector<double>(),
            (std::vector<double>{1, 2}));
  EXPECT_TRUE(empty_like(numbers(), pinned).is_pinned());
  EXPECT_FALSE(empty_like(numbers().pin_memory()).is_pinned());
}

TEST(PinnedTensor, IsRefusedOnAGpuAndOverMemoryOfOthers) {
  const TestDevices devices(1);
  EXPECT_EQ(thrown<InvalidArgument>([] { zeros({2}, {.device = "cuda:0"}).pin_memory(); }),
            "[pin_memory] expected a tensor on the CPU, got one on cuda:0");
  const TensorOptions there = {.device = "cuda:0", .pinned_memory = true};
  EXPECT_EQ(thrown<InvalidArgument>([&] { empty({2}, there); }),
            "[empty] expected the CPU with pinned_memory, got cuda:0");
  EXPECT_THROW(tensor({1, 2}, there), InvalidArgument);
  float memory[2] = {};
  EXPECT_THROW(from_blob(memory, {2}, {.pinned_memory = true}), InvalidArgument);
  EXPECT_THROW(Tensor().pin_memory(), InvalidArgument);
  EXPECT_THROW((void)Tensor().is_pinned(), InvalidArgument);
}

TEST(PinnedTensor, NeedsAGpu) {
  const NoDevices there;
  const std::string message = thrown<InvalidArgument>([] { numbers().pin_memory(); });
  EXPECT_THROW(empty({2}, {.pinned_memory = true}), InvalidArgument);
  EXPECT_EQ(message,
            "[pin_memory] cannot pin memory without a GPU: leave pinning out where cuda::is_available() says no "
            "(pinning only makes copies to GPUs faster)");
}

TEST(PinnedTensor, GoesToGpusWhateverItsLayoutAndDtype) {
  const TestDevices devices(2);
  const Tensor pinned = numbers().pin_memory();
  for (const char* const device : {"cuda:0", "cuda:1"}) {
    EXPECT_EQ(pinned.to(device).to_vector<float>(), numbers().to_vector<float>());
    EXPECT_EQ(pinned.narrow(0, 1, 2).to(device).to_vector<float>(), numbers().narrow(0, 1, 2).to_vector<float>());
    EXPECT_EQ(pinned.narrow(1, 1, 2).to(device).to_vector<float>(), numbers().narrow(1, 1, 2).to_vector<float>());
    EXPECT_EQ(pinned.t().to(device).to_vector<float>(), numbers().t().to_vector<float>());
    EXPECT_EQ(pinned.to(device, kInt32).to_vector<std::int32_t>(), numbers().to(kInt32).to_vector<std::int32_t>());
    EXPECT_EQ(empty({0}).pin_memory().to(device).numel(), 0);
    Tensor there = zeros({3, 4}, device);
    there.copy_(pinned);
    EXPECT_EQ(there.to_vector<float>(), numbers().to_vector<float>());
    Tensor back = zeros({3, 4}, {.pinned_memory = true});
    back.copy_(there.fill_(2));
    EXPECT_EQ(back.to_vector<float>(), Floats(12, 2));
  }
}

TEST(PinnedTensor, BringsAGradientBack) {
  const TestDevices devices(1);
  Tensor x = numbers().requires_grad_();
  x.pin_memory().to("cuda:0").backward(full({3, 4}, 3., "cuda:0"));
  EXPECT_EQ(x.grad().to_vector<float>(), Floats(12, 3));
}

// The device reads the bytes when it executes the copy: the test shows it by a write through a pointer.
TEST(PinnedTensor, IsReadInTheOrderOfTheStreamWhileTheHostGoesOn) {
  const SimulatedDevices devices({.count = 1});
  const Tensor pinned = ones({4}).pin_memory(), pageable = ones({4});
  float* const bytes = pinned.data<float>();
  Held held;
  const Tensor from_pinned = pinned.to("cuda:0"), from_pageable = pageable.to("cuda:0");
  bytes[0] = pageable.data<float>()[0] = 5;
  held.release();
  EXPECT_EQ(from_pinned.to_vector<float>(), (Floats{5, 1, 1, 1}));
  EXPECT_EQ(from_pageable.to_vector<float>(), Floats(4, 1));
}

TEST(PinnedTensor, LeavesItsMemoryToItsCopies) {
  const SimulatedDevices devices({.count = 1});
  const auto pinned = [](float value) { return full({1000}, double(value), {.pinned_memory = true}); };
  Held held;
  Tensor first = pinned(1);
  const float* const memory = first.data<float>();
  const Tensor there = first.to("cuda:0");
  first = Tensor();
  EXPECT_NE(std::as_const(*pinned(2).impl()).data(), reinterpret_cast<const std::byte*>(memory));
  held.release();
  EXPECT_EQ(there.to_vector<float>(), Floats(1000, 1));
  const Tensor next = pinned(3), other = pinned(4);
  EXPECT_TRUE(next.data<float>() == memory || other.data<float>() == memory) << "the memory is never used again";
}

TEST(PinnedTensor, LeavesItsMemoryToTheCopiesOfEveryDevice) {
  const SimulatedDevices devices({.count = 2});
  const auto pinned = [](float value) { return full({1000}, double(value), {.pinned_memory = true}); };
  Held held;
  Tensor first = pinned(1);
  const auto* const memory = first.impl()->data();
  const Tensor there = first.to("cuda:0"), elsewhere = first.to("cuda:1");
  synchronize("cuda:1");
  first = Tensor();
  EXPECT_NE(pinned(2).impl()->data(), memory);
  held.release();
  EXPECT_EQ(there.to_vector<float>(), Floats(1000, 1));
  EXPECT_EQ(elsewhere.to_vector<float>(), Floats(1000, 1));
}

TEST(PinnedTensor, IsChangedInPlaceWhenItsCopiesHaveEnded) {
  const SimulatedDevices devices({.count = 1});
  const std::vector<std::pair<const char*, std::function<void(Tensor&)>>> changes = {
      {"fill_", [](Tensor& x) { x.fill_(7); }},
      {"add_", [](Tensor& x) { x.add_(7); }},
      {"add_ a tensor", [](Tensor& x) { x.add_(ones({4})); }},
      {"mul_", [](Tensor& x) { x.mul_(full({4}, 7.)); }},
      {"copy_", [](Tensor& x) { x.copy_(full({4}, 7.)); }},
      {"a copy below gradients", [](Tensor& x) { copy_values(x, full({4}, 7.)); }},
      {"copy_ from a GPU", [](Tensor& x) { x.copy_(full({4}, 7., "cuda:0")); }},
      {"a view", [](Tensor& x) { x.narrow(0, 1, 2).fill_(7); }},
      {"uniform_", [](Tensor& x) { uniform_(x, 7, 8); }},
      {"data()", [](Tensor& x) { x.data<float>()[0] = 7; }},
      {"accessor", [](Tensor& x) { x.accessor<float, 1>()[0] = 7; }},
  };
  for (const auto& [name, change] : changes) {
    Tensor x = ones({4}).pin_memory();
    Held held;
    const Tensor there = x.to("cuda:0");
    const std::jthread later = held.released_later();
    change(x);
    EXPECT_EQ(there.to_vector<float>(), Floats(4, 1)) << name;
    EXPECT_NE(x.to_vector<float>(), Floats(4, 1)) << name;
  }
}

// Without the recorded event, the race checker does not see that the host waited for the copy.
TEST(PinnedTensor, IsTheHostsMemoryToTheRaceChecker) {
  SimulatedDevices devices({.count = 1});
  Tensor x = ones({4}).pin_memory();
  devices.fault().drop_record({.device = 0, .nth = 1});
  Tensor there = x.to("cuda:0");
  const std::string message = thrown<RaceError>([&] { x.fill_(2); });
  EXPECT_NE(message.find("the host writes"), std::string::npos) << message;
  EXPECT_NE(message.find("unordered with 'copy' that read them on cuda:0 stream 0"), std::string::npos) << message;
  synchronize("cuda:0");
  x.fill_(2);
}

TEST(PinnedTensor, ThrowsTheErrorOfTheWorkThatAChangeWaitsFor) {
  SimulatedDevices devices({.count = 1});
  Tensor x = ones({4}).pin_memory();
  devices.fault().fail_copy({.device = 0, .nth = 1});
  const Tensor there = x.to("cuda:0");
  EXPECT_THROW(x.fill_(2), BackendError);
  EXPECT_EQ(std::as_const(x).to_vector<float>(), Floats(4, 1));
}

TEST(PinnedTensor, IsPageableForOtherDevicesThanItsOwn) {
  const SimulatedDevices outer({.count = 1});
  const Tensor x = ones({4}).pin_memory();
  {
    const SimulatedDevices inner({.count = 1});
    EXPECT_EQ(x.to("cuda:0").to_vector<float>(), Floats(4, 1));
  }
  EXPECT_EQ(x.to("cuda:0").to_vector<float>(), Floats(4, 1));
}

TEST(PinnedTensor, MayOutliveItsDevices) {
  Tensor x;
  ::testing::internal::CaptureStderr();
  {
    const SimulatedDevices devices({.count = 1});
    x = ones({4}).pin_memory();
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "[sim] leak: 4096 bytes of page-locked memory in use at the end of the simulation\n");
  EXPECT_EQ(x.to_vector<float>(), Floats(4, 1));
}

}  // namespace
}  // namespace lockstep
