// Random tensors: their numbers, the same on all devices, their sequence, and the bounds of arguments.
#include <lockstep/tensor/random.h>

#include <gtest/gtest.h>
#include <oneapi/tbb/global_control.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <thread>

#include <lockstep/tensor/creation.h>

#include "support/test_devices.h"
#include "tensor/statistics.h"

namespace lockstep {
namespace {

constexpr DType kFloating[] = {kFloat16, kBFloat16, kFloat32, kFloat64};

template <class ErrorType, class Body>
std::string message_of(Body body) {
  try {
    body();
  } catch (const ErrorType& error) {
    return error.what();
  } catch (...) {
    return "another type of error";
  }
  return "no error";
}

// -- The numbers

TEST(Random, BeginsWithThePublishedBlockForSeedZero) {
  manual_seed(0);
  EXPECT_EQ(rand({4}).to_vector<float>(),
            (std::vector<float>{0x6627e8p-24f, 0xe169c5p-24f, 0xbc57acp-24f, 0x9b00dbp-24f}));
  manual_seed(0);
  EXPECT_EQ(values_of(rand({2}, {.dtype = kFloat64})),
            (std::vector<double>{0x1c2d38b1acc4fdp-53, 0x13601b7b178af5p-53}));
  manual_seed(0);
  EXPECT_EQ(randint(0, 1 << 16, {2}).to_vector<std::int64_t>(), (std::vector<std::int64_t>{0xe169, 0x9b00}));
}

TEST(Random, RepeatsASeedAndGoesOnBetweenCalls) {
  manual_seed(7);
  const auto first = values_of(rand({10})), second = values_of(rand({10}));
  EXPECT_NE(first, second);
  manual_seed(7);
  EXPECT_EQ(values_of(rand({10})), first);
  EXPECT_EQ(values_of(rand({10})), second);
  manual_seed(8);
  EXPECT_NE(values_of(rand({10})), first);
}

TEST(Random, GivesAnElementTheSameNumberInATensorOfAnySize) {
  const auto numbers = [](std::int64_t count, DType dtype) {
    manual_seed(3);
    return values_of(randn({count}, {.dtype = dtype}));
  };
  for (const DType dtype : {kFloat32, kFloat64}) {
    const auto all = numbers(1100, dtype);
    for (const std::int64_t count : {1, 2, 3, 4, 5, 63, 127, 128, 129, 255, 256, 257, 258, 259, 511, 1027})
      EXPECT_EQ(numbers(count, dtype), std::vector<double>(all.begin(), all.begin() + count)) << count;
  }
}

TEST(Random, GivesHalfTypesTheRoundedFloat32Number) {
  for (const DType dtype : {kFloat16, kBFloat16}) {
    manual_seed(5);
    const Tensor half = randn({1000}, {.dtype = dtype});
    manual_seed(5);
    EXPECT_EQ(values_of(half), values_of(randn({1000}).to(dtype)));
  }
}

// The bits of seed 0's normal numbers, whether the kernel computes many blocks at once or one at a time.
TEST(Random, GivesTheNormalNumbersOfTheTransform) {
  for (const std::int64_t count : {4, 400}) {
    manual_seed(0);
    const auto numbers = randn({count}).to_vector<float>();
    EXPECT_EQ(std::bit_cast<std::uint32_t>(numbers[0]), 0x3f7dbb33u);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(numbers[1]), 0xbf6cb6b0u);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(numbers[2]), 0xbf1e1b9fu);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(numbers[3]), 0xbef6d1b2u);
  }
}

// -- The same on all devices

using Maker = std::function<Tensor(Device, DType)>;

std::map<std::string, Maker> makers() {
  return {
      {"rand",
       [](Device device, DType dtype) {
         return rand({777, 13}, {.dtype = dtype, .device = device});
       }},
      {"randn",
       [](Device device, DType dtype) {
         return randn({777, 13}, {.dtype = dtype, .device = device});
       }},
      {"randint",
       [](Device device, DType dtype) { return randint(-5, 99, {777}, {.dtype = dtype, .device = device}); }},
      {"randperm", [](Device device, DType dtype) { return randperm(200, {.dtype = dtype, .device = device}); }},
      {"normal_",
       [](Device device, DType dtype) {
         Tensor columns = zeros({33, 65}, {.dtype = dtype, .device = device}).t();
         return normal_(columns, 1, 2);
       }},
  };
}

TEST(Random, IsTheSameOnASimulatedDeviceAsOnTheCpu) {
  const TestDevices devices(2);
  for (const auto& [name, make] : makers())
    for (const DType dtype : kFloating) {
      manual_seed(11);
      const auto expected = values_of(make(Device(), dtype));
      manual_seed(11);
      const Tensor there = make(Device("cuda:1"), dtype);
      EXPECT_EQ(there.device(), Device("cuda:1"));
      EXPECT_EQ(values_of(there), expected) << name << ' ' << dtype;
    }
}

TEST(Random, IsTheSameForOneThreadAndForMany) {
  const auto numbers = [](DType dtype) {
    manual_seed(12);
    return values_of(randn({200001}, {.dtype = dtype}));
  };
  for (const DType dtype : kFloating) {
    const auto many = numbers(dtype);
    const tbb::global_control one(tbb::global_control::max_allowed_parallelism, 1);
    EXPECT_EQ(numbers(dtype), many) << dtype;
  }
}

// -- The sequence

TEST(GeneratorState, IsDrawnFromInBlocksOfFourWords) {
  GeneratorState generator{.seed = 1, .stream = 2, .offset = 10};
  const GeneratorGuard guard(generator);
  rand({9});
  EXPECT_EQ(generator.offset, 13u);
  rand({9}, {.dtype = kFloat64});
  EXPECT_EQ(generator.offset, 18u);
  randint(0, 10, {4}, {.dtype = kUInt8});
  EXPECT_EQ(generator.offset, 20u);
  rand({0, 5});
  EXPECT_EQ(generator.offset, 20u);
}

TEST(GeneratorState, ReplacesTheProcessesSequenceInItsScopeOnItsThread) {
  manual_seed(1);
  const auto expected = values_of(rand({8}));
  manual_seed(1);
  GeneratorState outer{.seed = 2}, inner{.seed = 3};
  {
    const GeneratorGuard outer_guard(outer);
    {
      const GeneratorGuard inner_guard(inner);
      rand({8});
    }
    EXPECT_EQ(outer.offset, 0u);
    std::vector<double> on_another_thread;
    std::thread([&] { on_another_thread = values_of(rand({8})); }).join();
    EXPECT_EQ(on_another_thread, expected);
    rand({8});
  }
  EXPECT_EQ(inner.offset, 2u);
  EXPECT_EQ(outer.offset, 2u);
  EXPECT_EQ(draw(0).offset, 2u);
}

TEST(GeneratorState, GivesEachOfManyThreadsBlocksOfItsOwn) {
  manual_seed(1);
  constexpr int kThreads = 8, kDraws = 500;
  std::vector<std::vector<std::uint64_t>> starts(kThreads);
  std::vector<std::thread> threads;
  for (auto& mine : starts)
    threads.emplace_back([&mine] {
      for (int i = 0; i < kDraws; ++i) mine.push_back(draw(3).offset);
    });
  for (std::thread& thread : threads) thread.join();
  std::set<std::uint64_t> all;
  for (const auto& mine : starts) all.insert(mine.begin(), mine.end());
  EXPECT_EQ(all.size(), std::size_t(kThreads * kDraws));
  EXPECT_EQ(*all.rbegin(), 3u * (kThreads * kDraws - 1));
}

TEST(GeneratorState, IsNotAdvancedByACallThatFails) {
  GeneratorState generator;
  const GeneratorGuard guard(generator);
  Tensor numbers = zeros({3});
  EXPECT_THROW(rand({3}, {.dtype = kInt64}), DTypeError);
  EXPECT_THROW(rand({-1}), ShapeError);
  EXPECT_THROW(randint(3, 3, {3}), InvalidArgument);
  EXPECT_THROW(randint(0, 3, {3}, {.requires_grad = true}), AutogradError);
  EXPECT_THROW(uniform_(numbers, 1, 0), InvalidArgument);
  EXPECT_EQ(generator.offset, 0u);
  EXPECT_EQ(numbers.version(), zeros({3}).version());
}

// -- Bounds and arguments

TEST(Random, KeepsHalfTypesBelowTheUpperBound) {
  for (const DType dtype : {kFloat16, kBFloat16}) {
    manual_seed(31);
    const auto values = values_of(rand({100000}, {.dtype = dtype}));
    const double last = dtype == kFloat16 ? 1 - 0x1p-11 : 1 - 0x1p-8;
    EXPECT_EQ(*std::max_element(values.begin(), values.end()), last) << dtype;
    EXPECT_NEAR(moments_of(values).mean, 0.5, 0.004) << dtype;
  }
}

TEST(Random, KeepsUniformNumbersWithinTheirBounds) {
  const std::pair<double, double> bounds[] = {{-1, 0}, {1, 1 + 0x1p-6}, {-2.5, 3.5}, {1000, 1008}, {-8, -7}};
  for (const DType dtype : kFloating)
    for (const auto& [low, high] : bounds) {
      manual_seed(32);
      Tensor numbers = empty({10000}, {.dtype = dtype});
      const auto values = values_of(uniform_(numbers, low, high));
      EXPECT_GE(*std::min_element(values.begin(), values.end()), low) << dtype << ' ' << low << ' ' << high;
      EXPECT_LT(*std::max_element(values.begin(), values.end()), high) << dtype << ' ' << low << ' ' << high;
    }
  Tensor same = empty({5});
  EXPECT_EQ(values_of(uniform_(same, 2, 2)), std::vector<double>(5, 2));
}

TEST(Random, ScalesNormalNumbers) {
  manual_seed(33);
  Tensor numbers = empty({100000}, {.dtype = kFloat64});
  const Moments m = moments_of(values_of(normal_(numbers, -3, 0.5)));
  EXPECT_NEAR(m.mean, -3, 0.01);
  EXPECT_NEAR(m.variance, 0.25, 0.01);
  EXPECT_EQ(values_of(normal_(numbers, 1.5, 0)), std::vector<double>(100000, 1.5));
}

TEST(Random, FillsAViewInItsOwnOrderAndNothingAroundIt) {
  manual_seed(34);
  const auto expected = values_of(rand({4, 3}));
  manual_seed(34);
  Tensor whole = zeros({5, 6});
  Tensor inner = whole.t().narrow(0, 1, 4).narrow(1, 1, 3);
  const std::uint64_t version = whole.version();
  uniform_(inner, 0, 1);
  EXPECT_EQ(values_of(inner), expected);
  EXPECT_GT(whole.version(), version);
  for (const std::int64_t row : {0, 4}) EXPECT_EQ(values_of(whole[row]), std::vector<double>(6, 0));
  for (const std::int64_t column : {0, 5}) EXPECT_EQ(values_of(whole.select(1, column)), std::vector<double>(5, 0));
}

TEST(Random, ReachesTheEndsOfEveryRange) {
  manual_seed(35);
  const auto bytes = values_of(randint(0, 256, {10000}, {.dtype = kUInt8}));
  EXPECT_EQ(*std::min_element(bytes.begin(), bytes.end()), 0);
  EXPECT_EQ(*std::max_element(bytes.begin(), bytes.end()), 255);
  const std::int64_t lowest = std::numeric_limits<std::int64_t>::min(),
                     highest = std::numeric_limits<std::int64_t>::max();
  const auto wide = randint(lowest, highest, {1000}).to_vector<std::int64_t>();
  EXPECT_LT(*std::min_element(wide.begin(), wide.end()), lowest / 100 * 98);
  EXPECT_GT(*std::max_element(wide.begin(), wide.end()), highest / 100 * 98);
  EXPECT_EQ(randint(highest - 1, highest, {1}).item<std::int64_t>(), highest - 1);
  const auto halves = values_of(randint(0, 2049, {20000}, {.dtype = kFloat16}));
  EXPECT_EQ(*std::max_element(halves.begin(), halves.end()), 2048);
}

TEST(Random, PermutesAllIntegersOnce) {
  auto order = randperm(1000).to_vector<std::int64_t>();
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
  std::sort(order.begin(), order.end());
  std::vector<std::int64_t> all(1000);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(order, all);
  EXPECT_EQ(randperm(0).sizes(), Shape({0}));
  EXPECT_EQ(randperm(1).item<int>(), 0);
  EXPECT_EQ(randperm(256, {.dtype = kUInt8}).dtype(), kUInt8);
}

TEST(Random, HonoursOptions) {
  EXPECT_EQ(rand({2, 3}).dtype(), kFloat32);
  EXPECT_EQ(randint(0, 2, {2}).dtype(), kInt64);
  EXPECT_FALSE(rand({2}).requires_grad());
  EXPECT_TRUE(rand({2}, {.requires_grad = true}).requires_grad());
  EXPECT_TRUE(randn({2}, {.requires_grad = true}).is_leaf());
  EXPECT_EQ(rand({0, 3}).sizes(), Shape({0, 3}));
  EXPECT_EQ(randn({}).dim(), 0);
}

TEST(Random, TakesWhatIsLeftOutFromTheTensorItIsLike) {
  const TestDevices devices(1);
  const Tensor like = zeros({2, 3}, {.dtype = kFloat64, .device = "cuda"});
  for (const Tensor& made : {rand_like(like), randn_like(like), randint_like(like, 0, 5)}) {
    EXPECT_EQ(made.sizes(), like.sizes());
    EXPECT_EQ(made.dtype(), kFloat64);
    EXPECT_EQ(made.device(), like.device());
  }
  EXPECT_EQ(rand_like(like, {.dtype = kFloat32, .device = "cpu"}).device(), Device());
}

TEST(Random, RefusesWhatItCannotDo) {
  Tensor whole = zeros({3}, {.dtype = kInt64}), numbers = zeros({3}), expanded = zeros({1}).expand({3}), none;
  Tensor halves = zeros({3}, {.dtype = kFloat16});
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(message_of<DTypeError>([] { rand({2}, {.dtype = kInt64}); }),
            "[rand] expected a floating dtype, got int64");
  EXPECT_EQ(message_of<DTypeError>([] { randn({2}, {.dtype = kBool}); }),
            "[randn] expected a floating dtype, got bool");
  EXPECT_EQ(message_of<DTypeError>([&] { uniform_(whole, 0, 1); }), "[uniform_] expected a floating dtype, got int64");
  EXPECT_EQ(message_of<DTypeError>([&] { normal_(whole, 0, 1); }), "[normal_] expected a floating dtype, got int64");
  EXPECT_EQ(message_of<DTypeError>([] { randint(0, 2, {2}, {.dtype = kBool}); }),
            "[randint] expected a numeric dtype, got bool");
  EXPECT_EQ(message_of<InvalidArgument>([] { randint(5, 5, {2}); }),
            "[randint] expected low < high, got low 5 and high 5");
  EXPECT_EQ(message_of<InvalidArgument>([] { randint(0, 257, {2}, {.dtype = kUInt8}); }),
            "[randint] expected integers that uint8 holds, got low 0 and high 257");
  EXPECT_THROW(randint(0, 2050, {2}, {.dtype = kFloat16}), InvalidArgument);
  EXPECT_THROW(randint(-257, 0, {2}, {.dtype = kBFloat16}), InvalidArgument);
  EXPECT_EQ(message_of<InvalidArgument>([] { randperm(-1); }), "[randperm] expected a count of at least 0, got -1");
  EXPECT_EQ(message_of<InvalidArgument>([] { randperm(257, {.dtype = kUInt8}); }),
            "[randperm] expected a count that uint8 holds, got 257");
  for (const auto& [low, high] :
       {std::pair(1., 0.), std::pair(0., infinity), std::pair(-3e38, 3e38), std::pair(0., std::nan(""))})
    EXPECT_THROW(uniform_(numbers, low, high), InvalidArgument) << low << ' ' << high;
  EXPECT_THROW(uniform_(halves, 0, 70000), InvalidArgument);
  EXPECT_THROW(normal_(numbers, 0, -1), InvalidArgument);
  EXPECT_THROW(normal_(numbers, infinity, 1), InvalidArgument);
  EXPECT_THROW(normal_(numbers, 0, std::nan("")), InvalidArgument);
  EXPECT_THROW(uniform_(expanded, 0, 1), InvalidArgument);
  EXPECT_THROW(uniform_(none, 0, 1), InvalidArgument);
  EXPECT_THROW(rand_like(none), InvalidArgument);
  EXPECT_EQ(values_of(numbers), std::vector<double>(3, 0));
}

}  // namespace
}  // namespace lockstep
