// Tensor handles, the storage that they share, and reading values on the host.
#include <gtest/gtest.h>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/runtime/memory.h>
#include <lockstep/runtime/simulation.h>
#include <lockstep/tensor/creation.h>

#include "support/test_devices.h"
#include "support/thrown.h"
#include "support/values.h"

namespace lockstep {
namespace {

using testing::thrown;
using testing::values;

TEST(Handle, SharesTheArrayWhenCopied) {
  Tensor x = zeros({3});
  const Tensor y = x;
  EXPECT_TRUE(x.is_same(y));
  x.fill_(2);
  EXPECT_EQ(values(y), std::vector<double>(3, 2));
}

TEST(Handle, IsUndefinedUntilItHoldsSomething) {
  const Tensor nothing;
  EXPECT_FALSE(nothing.defined());
  EXPECT_EQ(thrown<InvalidArgument>([&] { nothing.sizes(); }), "[sizes] expected a tensor, got an undefined one");
  EXPECT_THROW(nothing.dtype(), InvalidArgument);
  EXPECT_THROW(nothing.device(), InvalidArgument);
  EXPECT_THROW(nothing.item<float>(), InvalidArgument);
  EXPECT_THROW(nothing.to_vector<float>(), InvalidArgument);
  EXPECT_THROW(nothing.view({1}), InvalidArgument);
  EXPECT_THROW(nothing.cpu(), InvalidArgument);
  EXPECT_THROW(nothing.backward(), InvalidArgument);
  EXPECT_THROW(nothing.detach(), InvalidArgument);
  EXPECT_THROW(nothing + nothing, InvalidArgument);
  EXPECT_THROW(Tensor().fill_(1), InvalidArgument);
}

TEST(Handle, GivesItsMemoryBackWithTheLastView) {
  const TestDevices devices(1);
  const std::size_t before = memory_stats("cuda:0").in_use;
  Tensor row;
  {
    const Tensor x = zeros({1000, 1000}, {.device = "cuda:0"});
    row = x[3];
    EXPECT_GE(memory_stats("cuda:0").in_use, before + 4000000);
  }
  EXPECT_GE(memory_stats("cuda:0").in_use, before + 4000000);
  row = Tensor();
  EXPECT_EQ(memory_stats("cuda:0").in_use, before);
}

TEST(Version, CountsChangesThroughAnyView) {
  Tensor x = zeros({2, 3});
  const Tensor view = x.t()[1];
  const std::uint64_t start = x.version();
  x.fill_(1);
  EXPECT_EQ(view.version(), start + 1);
  view.detach().copy_(ones({2}));
  EXPECT_EQ(x.version(), start + 2);
  x.add_(ones({2, 3}));
  x.mul_(2.0);
  EXPECT_EQ(x.version(), start + 4);
  const Tensor copy = x.clone();
  x + copy;
  EXPECT_EQ(x.version(), start + 4);
  EXPECT_NE(&copy, &x);
}

TEST(Item, GivesTheOnlyElementAsAnyType) {
  const TestDevices devices(1);
  EXPECT_EQ(tensor(3).item<double>(), 3.0);
  EXPECT_EQ(tensor(2.75).item<int>(), 2);
  EXPECT_EQ(full({1, 1, 1}, 5., {.device = "cuda:0"}).item<std::int64_t>(), 5);
  EXPECT_EQ(tensor({(std::int64_t(1) << 62) + 1}).item<std::int64_t>(), (std::int64_t(1) << 62) + 1);
  EXPECT_TRUE(tensor(true).item<bool>());
  EXPECT_EQ(arange(6).view({2, 3}).t()[2][1].item<int>(), 5);
}

TEST(Item, RefusesMoreOrLessThanOne) {
  EXPECT_EQ(thrown<ShapeError>([] { zeros({2}).item<float>(); }), "[item] expected one element, got shape [2]");
  EXPECT_THROW(zeros({0}).item<float>(), ShapeError);
}

TEST(ToVector, RefusesAnotherType) {
  EXPECT_EQ(thrown<DTypeError>([] {
              tensor({1, 2}).to_vector<float>();
            }),
            "[to_vector] the tensor is int64, but to_vector<T>() was called for float32: use the matching C++ type, or "
            "convert with .to(dtype)");
  EXPECT_EQ(tensor({true, false}).to_vector<bool>(), (std::vector<bool>{true, false}));
}

TEST(ToVector, IsRowMajorWhateverTheLayout) {
  const TestDevices devices(1);
  for (const Device device : {Device(), Device("cuda:0")})
    EXPECT_EQ(arange(6, {.device = device}).view({2, 3}).t().to_vector<std::int64_t>(),
              (std::vector<std::int64_t>{0, 3, 1, 4, 2, 5}));
}

TEST(Data, RefusesAnotherType) {
  Tensor x = arange(4, {.dtype = kFloat32});
  EXPECT_EQ(x.narrow(0, 2, 2).data<float>()[1], 3.f);
  EXPECT_THROW(x.data<double>(), DTypeError);
}

TEST(RequiresGrad, IsForFloatingLeaves) {
  EXPECT_THROW(tensor({1, 2}).requires_grad_(), AutogradError);
  EXPECT_THROW(tensor({true}).requires_grad_(), AutogradError);
  Tensor x = zeros({2}, {.dtype = kFloat16});
  EXPECT_TRUE(x.requires_grad_().requires_grad());
  EXPECT_FALSE(x.requires_grad_(false).requires_grad());
  Tensor y = x.requires_grad_() * 2.0;
  EXPECT_TRUE(y.requires_grad_().requires_grad());
  EXPECT_EQ(thrown<AutogradError>([&] { y.requires_grad_(false); }),
            "[requires_grad_] expected a leaf, got the result of an operation: use detach()");
  EXPECT_FALSE(y.detach().requires_grad());
}

TEST(SetGrad, TakesOnlyWhatIsLikeTheTensor) {
  const TestDevices devices(1);
  Tensor x = zeros({2, 3}, {.requires_grad = true});
  EXPECT_EQ(thrown<ShapeError>([&] {
              x.set_grad(zeros({3, 2}));
            }),
            "[set_grad] expected a gradient of shape [2, 3], got [3, 2]");
  EXPECT_THROW(x.set_grad(zeros({2, 3}, {.dtype = kFloat64})), DTypeError);
  EXPECT_THROW(x.set_grad(zeros({2, 3}, {.device = "cuda:0"})), DeviceMismatch);
  EXPECT_THROW(x.set_grad(x), InvalidArgument);
  EXPECT_FALSE(x.grad().defined());
  const Tensor grad = ones({2, 3});
  x.set_grad(grad);
  EXPECT_TRUE(x.grad().is_same(grad));
  x.set_grad(Tensor());
  EXPECT_FALSE(x.grad().defined());
}

TEST(DeviceMismatchError, IsThrownBeforeAnythingIsEnqueued) {
  SimulatedDevices devices({.count = 2});
  Tensor x = ones({2, 3}, {.device = "cuda:0"});
  const Tensor y = ones({2, 3}, {.device = "cuda:1"}), on_cpu = ones({2, 3});
  const OperationCounts before[] = {devices.counts(0), devices.counts(1)};
  EXPECT_EQ(thrown<DeviceMismatch>([&] { x + y; }),
            "[add] expected tensors on one device, got cuda:0 [2, 3] and cuda:1 [2, 3]: move one of them with "
            "x.to(Device::cuda(0))");
  EXPECT_EQ(thrown<DeviceMismatch>([&] { on_cpu + y; }),
            "[add] expected tensors on one device, got cpu [2, 3] and cuda:1 [2, 3]: move one of them with "
            "x.to(Device::cuda(1))");
  EXPECT_THROW(x * on_cpu, DeviceMismatch);
  EXPECT_THROW(x.add_(y), DeviceMismatch);
  EXPECT_THROW(x.mul_(on_cpu), DeviceMismatch);
  for (int d : {0, 1}) {
    EXPECT_EQ(devices.counts(d).launches, before[d].launches);
    EXPECT_EQ(devices.counts(d).copies, before[d].copies);
    EXPECT_EQ(devices.counts(d).allocations, before[d].allocations);
  }
  EXPECT_EQ(values(x), std::vector<double>(6, 1));
}

TEST(RecordStream, RefusesAStreamOfAnotherDevice) {
  const TestDevices devices(2);
  const Tensor x = ones({2}, {.device = "cuda:0"});
  EXPECT_EQ(thrown<DeviceMismatch>([&] { x.record_stream(Stream::from_pool("cuda:1")); }),
            "[record_stream] expected a stream of cuda:0, got one of cuda:1");
}

// The allocator does not reuse memory that a second stream uses before that stream's work has ended.
TEST(RecordStream, KeepsMemoryUntilTheOtherStreamIsDone) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SimulatedDevices devices({.count = 1, .seed = seed, .max_delay_us = 300});
    const Stream side = Stream::from_pool("cuda:0");
    Tensor result;
    {
      const Tensor x = full({256}, 3., {.device = "cuda:0"});
      side.wait(current_stream("cuda:0").record());
      const StreamGuard guard(side);
      result = x * 2.0;
    }
    const Tensor reused = full({256}, -1., {.device = "cuda:0"});
    current_stream("cuda:0").wait(side.record());
    EXPECT_EQ(values(result), std::vector<double>(256, 6));
  }
}

}  // namespace
}  // namespace lockstep
