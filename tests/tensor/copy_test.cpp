// Copies of values: between dtypes, layouts and devices.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <random>
#include <thread>

#include <lockstep/runtime/memory.h>
#include <lockstep/runtime/simulation.h>
#include <lockstep/runtime/stream.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "support/test_devices.h"
#include "support/thrown.h"
#include "support/values.h"

namespace lockstep {
namespace {

using testing::random_sizes;
using testing::reversed_in_memory;
using testing::thrown;
using testing::values;
using testing::with_gaps;

constexpr std::array kAll = {kBool, kUInt8, kInt32, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64};

TEST(Copy, ConvertsBetweenAllDtypesOnAnyPairOfDevices) {
  const TestDevices devices(2);
  const Tensor numbers = tensor({0, 1, 2, 3, 100, 127, 0, 64}).view({2, 4});
  for (const Device from_device : {Device(), Device("cuda:0")})
    for (const Device to_device : {Device(), Device("cuda:0"), Device("cuda:1")})
      for (const DType from : kAll)
        for (const DType to : kAll) {
          const Tensor source = numbers.to(from_device, from);
          Tensor target = zeros({2, 4}, {.dtype = to, .device = to_device});
          target.copy_(source);
          std::vector<double> expected = values(numbers);
          for (double& value : expected)
            if (from == kBool || to == kBool) value = value != 0;
          EXPECT_EQ(values(target), expected) << from << " on " << from_device << " to " << to << " on " << to_device;
          EXPECT_EQ(values(source.to(to_device, to)), expected);
        }
}

TEST(Copy, TruncatesFractionsAndTakesAnyNonzeroForTrue) {
  const Tensor x = tensor({-2.75, -0.5, 0.0, 0.25, 2.75});
  EXPECT_EQ(values(x.to(kInt32)), (std::vector<double>{-2, 0, 0, 0, 2}));
  EXPECT_EQ(values(x.to(kBool)), (std::vector<double>{1, 1, 0, 1, 1}));
  EXPECT_EQ(values(tensor({std::nan("")}).to(kBool)), std::vector<double>{1});
}

TEST(Copy, TransposesTilesAndTheirRemainders) {
  const TestDevices devices(1);
  for (const char* const device : {"cpu", "cuda:0"})
    for (const std::int64_t rows : {1, 7, 8, 63, 64, 65, 130})
      for (const std::int64_t columns : {1, 8, 31, 32, 33, 100})
        for (const DType dtype : {kUInt8, kFloat16, kFloat32, kFloat64}) {
          const Tensor x = randint(0, 200, {3, rows, columns}).to(device, dtype);
          const std::vector<double> from = values(x), to = values(x.transpose(1, 2).contiguous());
          const std::vector<double> outer = values(x.permute({2, 0, 1}).contiguous());
          for (std::int64_t n = 0; n < 3; ++n)
            for (std::int64_t r = 0; r < rows; ++r)
              for (std::int64_t c = 0; c < columns; ++c) {
                const double expected = from[std::size_t((n * rows + r) * columns + c)];
                ASSERT_EQ(to[std::size_t((n * columns + c) * rows + r)], expected);
                ASSERT_EQ(outer[std::size_t((c * 3 + n) * rows + r)], expected);
              }
        }
}

TEST(Copy, RoundsToSixteenBits) {
  const Tensor x = randn({1000});
  const auto exact = x.to_vector<float>();
  const auto half = x.to(kFloat16).to_vector<Half>();
  const auto brain = x.to(kBFloat16).to_vector<BFloat16>();
  for (std::size_t i = 0; i < exact.size(); ++i) {
    ASSERT_EQ(half[i].bits(), Half(exact[i]).bits());
    ASSERT_EQ(brain[i].bits(), BFloat16(exact[i]).bits());
  }
}

struct Layout {
  const char* name;
  Tensor (*of)(const Tensor&);
};
const Layout kLayouts[] = {{"dense", [](const Tensor& x) { return x.clone(); }},
                           {"rows apart",
                            [](const Tensor& x) {
                              Shape room = x.sizes();
                              room[room.rank() - 1] += 3;
                              Tensor wide = full(room, 77, {.dtype = x.dtype(), .device = x.device()});
                              Tensor view = wide.narrow(-1, 2, x.size(-1));
                              view.copy_(x);
                              return view;
                            }},
                           {"every element apart", &with_gaps},
                           {"reversed dimensions", &reversed_in_memory}};

// Copies from each layout to each, on and between all kinds of devices, with random shapes.
TEST(Copy, KeepsValuesBetweenLayoutsAndDevices) {
  SimulatedDevices devices({.count = 2, .seed = 3, .max_delay_us = 20});
  std::mt19937 random(5);
  for (int round = 0; round < 6; ++round) {
    const Shape sizes = random_sizes(random);
    const Tensor numbers = arange(double(sizes.elements())).view(sizes);
    for (const Device from_device : {Device(), Device("cuda:0")})
      for (const Device to_device : {Device(), Device("cuda:0"), Device("cuda:1")})
        for (const Layout& from : kLayouts)
          for (const Layout& to : kLayouts) {
            const Tensor source = from.of(numbers.to(from_device, kInt32));
            Tensor target = to.of(zeros(sizes, {.dtype = kInt32, .device = to_device}));
            target.copy_(source);
            ASSERT_EQ(values(target), values(numbers))
                << sizes << ' ' << from.name << " on " << from_device << " to " << to.name << " on " << to_device;
          }
  }
}

TEST(Copy, ChangesNothingAroundAView) {
  const TestDevices devices(2);
  for (const Device device : {Device(), Device("cuda:0")}) {
    const Tensor whole = zeros({4, 5}, {.device = device});
    whole.slice(0, 1, 4, 2).slice(1, 1, 4).copy_(ones({2, 3}, {.device = "cuda:1"}));
    EXPECT_EQ(values(whole), (std::vector<double>{0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0}));
  }
}

TEST(Copy, BroadcastsItsSource) {
  const TestDevices devices(2);
  for (const Device from : {Device(), Device("cuda:0"), Device("cuda:1")}) {
    Tensor x = zeros({2, 3}, {.device = "cuda:0"});
    x.copy_(tensor({1., 2., 3.}, {.device = from}));
    EXPECT_EQ(values(x), (std::vector<double>{1, 2, 3, 1, 2, 3}));
    x.copy_(tensor({{4.}, {5.}}, {.device = from}));
    EXPECT_EQ(values(x), (std::vector<double>{4, 4, 4, 5, 5, 5}));
    x.copy_(tensor(6., {.device = from}));
    EXPECT_EQ(values(x), std::vector<double>(6, 6));
    x.copy_(tensor({1, 2, 3}, {.device = from}));
    EXPECT_EQ(values(x), (std::vector<double>{1, 2, 3, 1, 2, 3}));
  }
}

TEST(Copy, MovesEmptyTensors) {
  const TestDevices devices(2);
  EXPECT_EQ(zeros({0, 3}).cuda(1).sizes(), (Shape{0, 3}));
  Tensor x = zeros({0, 3}, {.device = "cuda:0"});
  EXPECT_EQ(x.copy_(zeros({1, 3})).sizes(), (Shape{0, 3}));
}

TEST(To, GivesTheTensorItselfWhereItIsAsAsked) {
  SimulatedDevices devices({.count = 2});
  const Tensor Z = ones({2, 3}).cuda(1);
  const MemoryStats before = memory_stats("cuda:1");
  const OperationCounts counts = devices.counts(1);
  EXPECT_TRUE(Z.cuda(1).is_same(Z));
  EXPECT_TRUE(Z.to(kFloat32).is_same(Z));
  EXPECT_TRUE(Z.to("cuda:1", kFloat32).is_same(Z));
  EXPECT_TRUE(Z.contiguous().is_same(Z));
  EXPECT_EQ(memory_stats("cuda:1").allocations, before.allocations);
  EXPECT_EQ(devices.counts(1).copies, counts.copies);
  EXPECT_EQ(devices.counts(1).launches, counts.launches);
  const Tensor on_cpu = ones({2});
  EXPECT_TRUE(on_cpu.cpu().is_same(on_cpu));
}

TEST(To, CopiesOnceBetweenDevices) {
  SimulatedDevices devices({.count = 2});
  const Tensor x = ones({100}, {.device = "cuda:0"});
  const OperationCounts before[] = {devices.counts(0), devices.counts(1)};
  const Tensor y = x.cuda(1);
  EXPECT_EQ(devices.counts(0).copies + devices.counts(1).copies, before[0].copies + before[1].copies + 1);
  EXPECT_EQ(devices.counts(1).allocations, before[1].allocations + 1);
  EXPECT_EQ(devices.counts(0).allocations, before[0].allocations);
  EXPECT_FALSE(y.is_same(x));
}

// The copy is ordered after all work enqueued on both devices, and before all later work on both.
TEST(To, IsOrderedWithTheWorkOfBothDevices) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SimulatedDevices devices({.count = 2, .seed = seed, .max_delay_us = 200});
    Tensor x = zeros({64}, {.device = "cuda:0"});
    Tensor y = zeros({64}, {.device = "cuda:1"});
    for (int i = 1; i <= 5; ++i) {
      x.fill_(i);
      y.copy_(x);
      x.fill_(-1);
      y.mul_(2.0);
    }
    EXPECT_EQ(values(y), std::vector<double>(64, 10));
  }
}

TEST(CopyRefuses, AShapeThatDoesNotBroadcastAndChangesNothing) {
  SimulatedDevices devices({.count = 2});
  Tensor x = full({2, 3}, 5., {.device = "cuda:0"});
  const Tensor wide = ones({2, 4}, {.device = "cuda:1"}), high = ones({4, 2, 3}, {.device = "cuda:1"});
  const OperationCounts before[] = {devices.counts(0), devices.counts(1)};
  const std::uint64_t version = x.version();
  EXPECT_EQ(thrown<ShapeError>([&] { x.copy_(wide); }), "[copy] expected shapes that broadcast, got [2, 3] and [2, 4]");
  EXPECT_EQ(thrown<ShapeError>([&] { x.copy_(high); }),
            "[copy] expected a source that broadcasts to [2, 3], got [4, 2, 3]");
  EXPECT_EQ(thrown<InvalidArgument>([&] { x.copy_(Tensor()); }), "[copy_] expected a tensor, got an undefined one");
  for (int d : {0, 1}) {
    EXPECT_EQ(devices.counts(d).copies, before[d].copies);
    EXPECT_EQ(devices.counts(d).launches, before[d].launches);
    EXPECT_EQ(devices.counts(d).allocations, before[d].allocations);
  }
  EXPECT_EQ(x.version(), version);
  EXPECT_EQ(values(x), std::vector<double>(6, 5));
}

TEST(Copy, TakesWhatLiesBetweenTheElementsOfTheTarget) {
  const TestDevices devices(1);
  for (const char* device : {"cpu", "cuda:0"}) {
    const Tensor x = arange(16).view({4, 4}).to(device);
    x.select(1, 0).copy_(x.select(1, 3));
    x.narrow(1, 1, 1).copy_(x.narrow(1, 2, 1));
    EXPECT_EQ(values(x), (std::vector<double>{3, 2, 2, 3, 7, 6, 6, 7, 11, 10, 10, 11, 15, 14, 14, 15}));
    x.narrow(0, 0, 2).narrow(1, 0, 2).copy_(x.narrow(0, 1, 2).narrow(1, 2, 2));
    EXPECT_EQ(values(x), (std::vector<double>{6, 7, 2, 3, 10, 11, 6, 7, 11, 10, 10, 11, 15, 14, 14, 15}));
  }
}

std::vector<std::uint32_t> words(const Tensor& floats) {
  std::vector<std::uint32_t> result;
  for (const float f : floats.to_vector<float>()) result.push_back(std::bit_cast<std::uint32_t>(f));
  return result;
}

// NaN payloads too: a GPU converts with an instruction of its own.
TEST(Copy, GivesSixteenBitFloatsTheHostsBitsOnADevice) {
  const TestDevices devices(1);
  std::mt19937 random(3);
  std::vector<std::uint16_t> patterns(1 << 16);
  std::vector<std::uint32_t> floats(1 << 16);
  for (std::size_t i = 0; i < patterns.size(); ++i) patterns[i] = std::uint16_t(i), floats[i] = std::uint32_t(random());
  for (const std::uint32_t nan : {0x7f800001u, 0x7fffffffu, 0xff800001u, 0xffc12345u}) floats.push_back(nan);
  const Tensor wide = from_host(floats.data(), floats.size(), kFloat32, {std::int64_t(floats.size())});
  for (const DType dtype : {kFloat16, kBFloat16}) {
    const Tensor narrow = from_host(patterns.data(), patterns.size(), dtype, {std::int64_t(patterns.size())});
    EXPECT_EQ(words(narrow.to("cuda:0").to(kFloat32).to("cpu")), words(narrow.to(kFloat32))) << dtype;
    EXPECT_EQ(words(wide.to("cuda:0").to(dtype).to("cpu").to(kFloat32)), words(wide.to(dtype).to(kFloat32))) << dtype;
  }
}

TEST(CopyRefuses, MemoryThatOverlapsItself) {
  Tensor x = arange(9).view({3, 3});
  EXPECT_NE(thrown<InvalidArgument>([&] { x.t().copy_(x); }).find("overlaps the target"), std::string::npos);
  EXPECT_THROW(x.narrow(0, 0, 2).copy_(x.narrow(0, 1, 2)), InvalidArgument);
  EXPECT_THROW(x.copy_(x[0]), InvalidArgument);
  EXPECT_THROW(x.select(1, 1).copy_(x.select(0, 1)), InvalidArgument);  // they share one element
  EXPECT_THROW(x.narrow(1, 0, 2).copy_(x.narrow(1, 1, 2)), InvalidArgument);
  const Tensor expanded = zeros({1, 3}).expand({4, 3});
  EXPECT_NE(thrown<InvalidArgument>([&] { Tensor(expanded).fill_(1); }).find("share memory (expand)"), std::string::npos);
  EXPECT_EQ(values(x), values(arange(9)));
}

TEST(Copy, OntoItselfOrBesideItIsFine) {
  Tensor x = arange(9).view({3, 3});
  x.copy_(x);
  x.narrow(0, 0, 1).copy_(x.narrow(0, 1, 1));
  EXPECT_EQ(values(x), (std::vector<double>{3, 4, 5, 3, 4, 5, 6, 7, 8}));
}

// The source has each element once, the target many times.
TEST(Copy, BroadcastsAcrossDevices) {
  const TestDevices devices(2);
  const std::vector<Device> all = {Device(), "cuda:0", "cuda:1"};
  for (const Device& from : all)
    for (const Device& to : all) {
      const Tensor row = arange(0, 128).to(from, kFloat32), column = arange(0, 16).to(from, kFloat32).view({16, 1});
      std::vector<Tensor> others;
      for (int i = 0; i < 20; ++i) others.push_back(full({1024}, 7., {.device = to}));
      const Tensor rows = row.expand({16, 128}).to(to), columns = column.expand({16, 128}).to(to);
      Tensor target = zeros({16, 128}, {.device = to}), three = zeros({3, 16, 128}, {.device = to});
      target.copy_(row);
      three.copy_(column);
      std::vector<double> by_row, by_column;
      for (int i = 0; i < 16 * 128; ++i) by_row.push_back(i % 128), by_column.push_back(i / 128);
      EXPECT_EQ(values(rows), by_row) << from << " to " << to;
      EXPECT_EQ(values(columns), by_column);
      EXPECT_EQ(values(target), by_row);
      for (int i = 0; i < 3; ++i) EXPECT_EQ(values(three[i]), by_column);
      for (const Tensor& other : others) EXPECT_EQ(values(other), std::vector<double>(1024, 7));
    }
}

TEST(Copy, UsesNoMoreThanTheElementsOfAView) {
  const SimulatedDevices devices({.count = 1});
  const Tensor x = zeros({8, 8}, {.device = "cuda:0"});
  const Stream other = Stream::from_pool("cuda:0");
  synchronize("cuda:0");
  const Tensor copy = x.narrow(1, 0, 4).t().clone();
  const StreamGuard guard(other);
  EXPECT_NO_THROW(Tensor(x.narrow(1, 4, 4)).fill_(2));
  EXPECT_THROW(Tensor(x.narrow(1, 3, 4)).fill_(2), RaceError);
  synchronize("cuda:0");
}

// The allocator queries whether work on other streams has ended. That is not a wait by the user.
TEST(Copy, AForgottenWaitIsFoundWhateverTheAllocatorKnows) {
  for (const int sleep_ms : {0, 20}) {
    const SimulatedDevices devices({.count = 1});
    const Device gpu("cuda:0");
    const Tensor x = zeros({4}, {.device = gpu});
    Tensor unrelated = zeros({4}, {.device = gpu});
    synchronize(gpu);
    {
      const StreamGuard guard(Stream::from_pool(gpu));
      Tensor(x).fill_(1);
      unrelated.fill_(1);
    }
    unrelated = Tensor();  // the allocator keeps its memory until the other stream has passed
    std::this_thread::sleep_for(std::chrono::milliseconds(sleep_ms));
    const Tensor takes_its_memory = full({4}, 2., {.device = gpu});
    EXPECT_THROW(x.clone(), RaceError) << sleep_ms;
    synchronize(gpu);
  }
}

}  // namespace
}  // namespace lockstep
