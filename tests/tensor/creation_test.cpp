// New tensors: their shape, dtype, device and values, and errors.
#include <lockstep/tensor/creation.h>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include <lockstep/runtime/memory.h>
#include <lockstep/runtime/simulation.h>
#include <lockstep/runtime/stream.h>
#include <lockstep/tensor/random.h>

#include "support/test_devices.h"
#include "support/thrown.h"
#include "support/values.h"

namespace lockstep {
namespace {

using testing::thrown;
using testing::values;

constexpr std::array kDTypes = {kBool, kUInt8, kInt32, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64};

TEST(Creation, FillsEveryDtypeOnEveryDevice) {
  const TestDevices devices(2);
  for (const Device device : {Device(), Device("cuda:0"), Device("cuda:1")})
    for (const DType dtype : kDTypes) {
      const TensorOptions options = {.dtype = dtype, .device = device};
      EXPECT_EQ(values(zeros({2, 3}, options)), std::vector<double>(6, 0));
      EXPECT_EQ(values(ones({2, 3}, options)), std::vector<double>(6, 1));
      const Tensor x = full({3}, 7, options);
      EXPECT_EQ(x.dtype(), dtype);
      EXPECT_EQ(x.device(), device);
      EXPECT_EQ(values(x), std::vector<double>(3, dtype == kBool ? 1 : 7)) << dtype;
    }
}

TEST(Creation, IsFloat32OnTheCpuByDefault) {
  const Tensor x = zeros({2});
  EXPECT_EQ(x.dtype(), kFloat32);
  EXPECT_EQ(x.device(), Device("cpu"));
  EXPECT_FALSE(x.requires_grad());
  EXPECT_TRUE(zeros({2}, {.requires_grad = true}).requires_grad());
}

TEST(Creation, OfTheLikeTakesOverWhatIsNotGiven) {
  const TestDevices devices(1);
  const Tensor x = zeros({2, 3}, {.dtype = kInt32, .device = "cuda:0"});
  EXPECT_EQ(ones_like(x).dtype(), kInt32);
  EXPECT_EQ(ones_like(x).device(), Device("cuda:0"));
  EXPECT_EQ(ones_like(x, {.dtype = kFloat64}).dtype(), kFloat64);
  EXPECT_EQ(full_like(x, 3, {.device = "cpu"}).device(), Device("cpu"));
  EXPECT_EQ(empty_like(x.t()).sizes(), (Shape{3, 2}));
  EXPECT_TRUE(empty_like(x.t()).is_contiguous());
}

TEST(Fill, RefusesNumbersThatTheDTypeCannotHold) {
  for (const auto& refused : std::vector<std::function<void()>>{
           [] { zeros({1}, {.dtype = kUInt8}).fill_(300); },
           [] { full({1}, 300., {.dtype = kUInt8}); },
           [] { zeros({1}, {.dtype = kInt32}).fill_(3e9); },
           [] { zeros({1}, {.dtype = kInt64}).fill_(std::numeric_limits<double>::quiet_NaN()); },
           [] { zeros({1}, {.dtype = kInt64}).fill_(9.3e18); },
       })
    EXPECT_NE(thrown<InvalidArgument>(refused).find("can hold"), std::string::npos);
  EXPECT_EQ(full({1}, -1., {.dtype = kUInt8}).item<int>(), 255) << "as in PyTorch";
  EXPECT_EQ(full({1}, -2147483648., {.dtype = kInt32}).item<int>(), -2147483648);
}

TEST(Arange, CountsBeforeTheStop) {
  const double cases[][3] = {{0, 5, 1}, {2, 11, 3}, {5, 0, -1}, {5, -1, -2}, {0, 1, 0.125}, {-1, 1, 0.3}, {3, 3, 1}};
  for (const auto& [start, stop, step] : cases) {
    std::vector<double> expected;
    for (int i = 0;; ++i) {
      const volatile double offset = i * step;  // rounded before it is added, in every build mode
      if (step > 0 ? start + offset >= stop : start + offset <= stop) break;
      expected.push_back(start + offset);
    }
    EXPECT_EQ(values(arange(start, stop, step, {.dtype = kFloat64})), expected);
  }
}

TEST(Arange, IsWholeUnlessAnArgumentIsNot) {
  EXPECT_EQ(arange(4).dtype(), kInt64);
  EXPECT_EQ(arange(0, 1, 0.5).dtype(), kFloat32);
  EXPECT_EQ(arange(4, {.dtype = kBFloat16}).dtype(), kBFloat16);
}

TEST(Arange, RefusesStepsThatLeadNowhere) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_THROW(arange(0, 5, 0), InvalidArgument);
  EXPECT_THROW(arange(0, 5, -1), InvalidArgument);
  EXPECT_THROW(arange(0, infinity), InvalidArgument);
  EXPECT_THROW(arange(0, 1, std::nan("")), InvalidArgument);
  EXPECT_THROW(arange(0, 1e300), InvalidArgument);
  EXPECT_THROW(arange(0, 4, 1, {.dtype = kBool}), DTypeError);
}

TEST(TensorOf, KeepsIntegersBoolsAndDoublesAsPyTorch) {
  EXPECT_EQ(tensor({1, 2, 3}).dtype(), kInt64);
  EXPECT_EQ(tensor({true, false}).dtype(), kBool);
  EXPECT_EQ(tensor({1.5, 2.0}).dtype(), kFloat32);
  EXPECT_EQ(tensor({std::uint8_t(3)}).dtype(), kUInt8);
  EXPECT_EQ(tensor(2.5).sizes(), Shape());
  EXPECT_EQ(tensor({{1, 2, 3}, {4, 5, 6}}).sizes(), (Shape{2, 3}));
  EXPECT_EQ(values(tensor({{1, 2}, {3, 4}})), (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(values(tensor(std::vector<bool>{true, false})), (std::vector<double>{1, 0}));
}

TEST(TensorOf, RoundsOnceWhenAskedForAnotherDtype) {
  const double value = 1 + std::ldexp(1, -40);
  EXPECT_EQ(tensor(value, {.dtype = kFloat64}).item<double>(), value);
  EXPECT_EQ(tensor({value}, {.dtype = kFloat64}).item<double>(), value);
  EXPECT_EQ(tensor({std::int64_t(1) << 60}).item<std::int64_t>(), std::int64_t(1) << 60);
}

TEST(TensorOf, RefusesRowsOfDifferentLengths) {
  EXPECT_EQ(thrown<ShapeError>([] { tensor({{1, 2}, {3}}); }), "[tensor] expected rows of 2 values, got one of 1");
}

TEST(TensorOf, RefusesIntegersThatInt64DoesNotHold) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  const char* const message = "[tensor] expected integers up to 9223372036854775807, got 9223372036854775808";
  EXPECT_EQ(tensor(kMost).item<std::int64_t>(), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(tensor({u'a', u'b'}).dtype(), kInt64);
  EXPECT_EQ(thrown<InvalidArgument>([&] { tensor(kMost + 1); }), message);
  EXPECT_EQ(thrown<InvalidArgument>([&] { tensor({std::uint64_t(1), kMost + 1}); }), message);
  EXPECT_EQ(thrown<InvalidArgument>([&] { tensor(std::vector{kMost, kMost + 1}); }), message);
}

TEST(FromHost, RefusesAnotherNumberOfValues) {
  const float numbers[6] = {};
  EXPECT_EQ(thrown<ShapeError>([&] {
              from_host(numbers, 6, kFloat32, {2, 2});
            }),
            "[tensor] expected 4 values for shape [2, 2], got 6");
  EXPECT_THROW(from_host(numbers, 6, kFloat32, {-2, -3}), ShapeError);
  EXPECT_THROW(from_host(numbers, 0, kFloat32, {1ll << 32, 1ll << 32}), ShapeError);
}

TEST(CreationRefuses, NegativeSizesAndThoseThatDoNotFit) {
  EXPECT_EQ(thrown<ShapeError>([] {
              empty({2, -3});
            }),
            "[empty] expected sizes of at least 0 whose product fits 64 bits, got [2, -3]");
  EXPECT_THROW(empty({-1, -1}), ShapeError);
  EXPECT_THROW(empty({1ll << 32, 1ll << 32}), ShapeError);
  EXPECT_THROW(empty({1ll << 60, 8}, {.dtype = kUInt8}), ShapeError);
  EXPECT_THROW(empty({1ll << 61}, {.dtype = kFloat32}), ShapeError);
  EXPECT_THROW(zeros({1, 1, 1, 1, 1, 1, 1, 1, 1}), ShapeError);
}

TEST(CreationRefuses, ADeviceThatIsNotThere) {
  const TestDevices devices(2);
  EXPECT_EQ(thrown<InvalidArgument>([] { zeros({2}, {.device = "cuda:2"}); }),
            "[Device] expected one of 2 visible GPUs, got cuda:2");
}

TEST(CreationRefuses, AGradientOfIntegers) {
  EXPECT_EQ(thrown<AutogradError>([] { zeros({2}, {.dtype = kInt64, .requires_grad = true}); }),
            "[requires_grad_] expected a floating dtype, got int64");
}

TEST(CreationRefuses, MoreThanTheDeviceHasAndGoesOn) {
  SimulatedDevices devices({.count = 1, .memory_bytes = 8 << 20});
  const std::size_t before = memory_stats("cuda:0").in_use;
  for (const std::int64_t count : {std::int64_t(4) << 20, std::int64_t(1) << 40, std::int64_t(1) << 59}) {
    try {
      empty({count}, {.device = "cuda:0"});
      ADD_FAILURE() << "nothing was thrown for " << count;
    } catch (const OutOfMemory& error) {
      EXPECT_EQ(error.device, "cuda:0");
      EXPECT_GE(error.sizes.requested, std::size_t(count) * 4);
      EXPECT_EQ(error.sizes.limit, std::size_t(8) << 20);
    }
  }
  EXPECT_EQ(memory_stats("cuda:0").in_use, before);
  EXPECT_EQ(values(ones({3}, {.device = "cuda:0"})), std::vector<double>(3, 1));
}

TEST(Creation, TakesEmptyAndZeroDimensionalShapes) {
  const TestDevices devices(1);
  for (const Device device : {Device(), Device("cuda:0")}) {
    EXPECT_EQ(zeros({0, 3}, {.device = device}).numel(), 0);
    EXPECT_TRUE(values(zeros({0, 3}, {.device = device})).empty());
    EXPECT_EQ(values(full({}, 4., {.device = device})), std::vector<double>{4});
  }
}

TEST(Creation, ATensorWithoutElementsMayOutliveItsDevices) {
  Tensor outlives;
  ::testing::internal::CaptureStderr();
  {
    const SimulatedDevices devices({.count = 2});
    outlives = zeros({0, 3}, {.device = "cuda:1"});
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "[sim] leak on cuda:1: 1 tensors without elements at the end of its simulation\n");
  EXPECT_EQ(outlives.device(), Device("cuda:1"));
  outlives = Tensor();
}

TEST(Creation, RefusesANullPointerToValues) {
  EXPECT_EQ(thrown<InvalidArgument>([] { from_host(nullptr, 2, kFloat32, {2}); }),
            "[tensor] expected 2 values, got a null pointer");
  EXPECT_EQ(from_host(nullptr, 0, kFloat32, {0}).numel(), 0);
}

TEST(Creation, RefusesADTypeThatThereIsNot) {
  const auto unknown = DType(99);
  EXPECT_EQ(thrown<DTypeError>([&] { empty({2}, {.dtype = unknown}); }),
            "[empty] expected a dtype, got an unknown dtype");
  EXPECT_THROW(ones({2}).to(unknown), DTypeError);
  EXPECT_THROW(ones({2}).to("cpu", unknown), DTypeError);
  EXPECT_THROW(randint(0, 2, {2}, {.dtype = unknown}), DTypeError);
  EXPECT_THROW(arange(0, 2, 1, {.dtype = unknown}), DTypeError);
  const float values[] = {1};
  EXPECT_THROW(from_host(values, 1, unknown, {1}), DTypeError);
}

TEST(Creation, RefusesADeviceWithoutAName) {
  const char* const none = nullptr;
  EXPECT_THROW(empty({2}, {.device = none}), InvalidArgument);
}

// A limit that docs/simulation.md names.
TEST(Creation, MemoryOfASimulatedDeviceIsNotKeptFromTheHost) {
  const SimulatedDevices devices({.count = 1});
  const Tensor x = full({2}, 3., {.device = "cuda:0"});
  synchronize(Device("cuda:0"));
  EXPECT_EQ(x.data<float>()[1], 3);
}

}  // namespace
}  // namespace lockstep
