// A tensor that gets its memory late has the values that it would have had at once.
#include <lockstep/tensor/deferred_init.h>

#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include <lockstep/core/error.h>
#include <lockstep/runtime/memory.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "support/test_devices.h"

namespace lockstep {
namespace {

using Make = std::function<Tensor()>;

constexpr std::int64_t kRows = 300, kColumns = 1000;
constexpr std::size_t kBytes = kRows * kColumns * sizeof(float);

std::size_t in_use() { return memory_stats(Device()).in_use; }

Tensor made(const Make& make, bool deferred) {
  manual_seed(3);
  if (!deferred) return make();
  const DeferredInit guard;
  return make();
}

const std::vector<Make>& all() {
  const Shape sizes = {kRows, kColumns};
  static const std::vector<Make> makes = {
      [=] { return zeros(sizes); },
      [=] { return full(sizes, 2.5); },
      [=] { return rand(sizes); },
      [=] { return randn(sizes); },
      [=] { return randint(-4, 9, sizes, {.dtype = kInt32}); },
      [=] {
        Tensor x = empty(sizes);
        return uniform_(x, -2, 5);
      },
      [=] {  // the last values count, and each takes its numbers
        Tensor x = empty(sizes);
        uniform_(x, -2, 5);
        x.fill_(3);
        return normal_(x, 1, 2);
      },
      [=] {
        const Tensor former = randn({7});
        const Tensor x = randn(sizes);
        randn({7});
        return x;
      },
  };
  return makes;
}

TEST(DeferredInit, GivesTheSameValues) {
  for (const Make& make : all()) {
    const Tensor expected = made(make, false).to(kFloat64), later = made(make, true);
    const Tensor next = randn({3});
    manual_seed(99);  // numbers that are drawn meanwhile change nothing
    EXPECT_EQ(later.clone().to(kFloat64).to_vector<double>(), expected.to_vector<double>());
    EXPECT_EQ(later.to(kFloat64).to_vector<double>(), expected.to_vector<double>());
    EXPECT_EQ((later + 0.).to(kFloat64).to_vector<double>(), expected.to_vector<double>());
    made(make, false);
    EXPECT_EQ(next.to_vector<float>(), randn({3}).to_vector<float>());
  }
}

TEST(DeferredInit, GivesOtherDtypesTheSameValues) {
  for (const DType dtype : {kFloat16, kBFloat16, kFloat64})
    for (const std::int64_t count : {1, 3, 1001}) {
      const Make make = [&] { return randn({count}, {.dtype = dtype}); };
      const auto expected = made(make, false).to(kFloat64).to_vector<double>();
      EXPECT_EQ(made(make, true).to(kFloat64).to_vector<double>(), expected);
    }
}

TEST(DeferredInit, TakesMemoryWhenTheTensorIsUsed) {
  for (const Make& make : all()) {
    const std::size_t before = in_use();
    Tensor x = made(make, true);
    EXPECT_LT(in_use(), before + kBytes / 10);
    x.clone();  // the copy's values are made for the copy alone
    EXPECT_LT(in_use(), before + kBytes / 10);
    x.view({-1}).slice(0, 0, 2).clone();  // which cannot be made alone
    EXPECT_GE(in_use(), before + kBytes);
    x.fill_(1);
    EXPECT_EQ(x.to(kFloat64).to_vector<double>(), ones({kRows, kColumns}).to(kFloat64).to_vector<double>());
  }
  const std::size_t before = in_use();
  const Tensor x = rand({kRows, kColumns});
  EXPECT_GE(in_use(), before + kBytes) << "without a guard";
}

TEST(DeferredInit, KeepsValuesAroundThoseThatAreWritten) {
  const Make make = [] { return rand({4, 5}); };
  const Tensor expected = made(make, false), x = made(make, true), y = made(make, true), z = made(make, true);
  Tensor rows[] = {expected.select(0, 2), x.select(0, 2), y.select(0, 2), z.transpose(0, 1).select(1, 2)};
  rows[0].fill_(7);
  rows[1].fill_(7);
  rows[2].copy_(full({5}, 7.));
  rows[3].fill_(7);
  for (const Tensor& each : {x, y, z}) EXPECT_EQ(each.to_vector<float>(), expected.to_vector<float>());
}

TEST(DeferredInit, FillsTransposedTensors) {
  const Make make = [] {
    const Tensor x = zeros({4, 5});
    Tensor transposed = x.transpose(0, 1);
    uniform_(transposed, 0, 1);
    return x;
  };
  EXPECT_EQ(made(make, true).to_vector<float>(), made(make, false).to_vector<float>());
}

TEST(DeferredInit, TakesValuesThatAreCopied) {
  Tensor x = made([] { return rand({4, 5}); }, true);
  x.copy_(arange(5.).to(kFloat32));
  EXPECT_EQ(x.to_vector<float>(), arange(5.).to(kFloat32).expand({4, 5}).clone().to_vector<float>());
  Tensor y = made([] { return rand({4, 5}); }, true);
  EXPECT_THROW(y.copy_(ones({3, 5})), ShapeError);
  EXPECT_EQ(y.to_vector<float>(), made([] { return rand({4, 5}); }, false).to_vector<float>());
}

TEST(DeferredInit, GivesAPointer) {
  const Tensor x = made([] { return full({3}, 4.); }, true);
  float* const values = x.data<float>();
  EXPECT_EQ(values[2], 4);
  values[1] = 5;
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{4, 5, 4}));
  EXPECT_EQ(x.data<float>(), values);
}

TEST(DeferredInit, EndsWithItsScope) {
  {
    const DeferredInit outer;
    { const DeferredInit inner; }
    const std::size_t before = in_use();
    const Tensor x = rand({kRows, kColumns});
    EXPECT_LT(in_use(), before + kBytes / 10);
    std::thread([&] {
      const Tensor of_another_thread = rand({kRows, kColumns});
      EXPECT_GE(in_use(), before + kBytes);
    }).join();
  }
  const std::size_t before = in_use();
  const Tensor x = rand({kRows, kColumns});
  EXPECT_GE(in_use(), before + kBytes);
}

TEST(DeferredInit, MakesNothingLateOnGpus) {
  const SimulatedDevices devices({.count = 1});
  const Device gpu = Device::cuda(0);
  const DeferredInit guard;
  const Tensor x = full({3}, 2., {.device = gpu});
  EXPECT_EQ(x.to(Device()).to_vector<float>(), (std::vector<float>{2, 2, 2}));
  EXPECT_EQ(full({3}, 2.).to(gpu).to(Device()).to_vector<float>(), (std::vector<float>{2, 2, 2}));
  EXPECT_EQ(full({0}, 2.).to(gpu).to(Device()).to_vector<float>(), (std::vector<float>{}));
}

TEST(DeferredInit, IsUsedByTwoThreadsAtOnce) {
  for (int i = 0; i < 20; ++i) {
    const Tensor x = made([] { return rand({kRows, kColumns}); }, true);
    const float* addresses[3] = {};
    std::vector<std::thread> threads;
    for (auto& address : addresses) threads.emplace_back([&] { address = x.data<float>(); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(addresses[0], addresses[1]);
    EXPECT_EQ(addresses[0], addresses[2]);
  }
}

TEST(DeferredInit, FillsViewsWithoutMemory) {
  const Make make = [] {
    const Tensor x = rand({kRows, kColumns});
    Tensor row = x.select(0, 7), column = x.select(1, 3), block = x.slice(0, 20, 40);
    row.zero_();
    column.fill_(2);
    normal_(block, 0, 1);
    return x;
  };
  const std::size_t before = in_use();
  const Tensor x = made(make, true);
  EXPECT_LT(in_use(), before + kBytes / 10);
  EXPECT_EQ(x.to_vector<float>(), made(make, false).to_vector<float>());
}

TEST(DeferredInit, FillsManyViews) {
  const Make make = [] {
    const Tensor x = rand({100'000, 2});
    for (std::int64_t i = 0; i < x.size(0); i += 2) {
      Tensor row = x.select(0, i);
      row.fill_(double(i));
    }
    return x;
  };
  EXPECT_EQ(made(make, true).to_vector<float>(), made(make, false).to_vector<float>());
}

TEST(DeferredInit, CopiesUnderTheGuardAreDeferredToo) {
  const std::size_t before = in_use();
  const DeferredInit guard;
  manual_seed(4);
  const Tensor x = rand({kRows, kColumns}), copy = x.clone();
  EXPECT_LT(in_use(), before + kBytes / 10);
  Tensor changed = x.clone();
  changed.fill_(2);
  EXPECT_EQ(copy.to_vector<float>(), x.to_vector<float>());
  EXPECT_EQ(changed.to_vector<float>(), std::vector<float>(kRows * kColumns, 2));
}

TEST(DeferredInit, KeepsItsValuesIfACopyToItFails) {
  SimulatedDevices devices({.count = 1});
  const Tensor on_gpu = randn({5, 4}, {.device = Device::cuda(0)});
  { const Tensor other = full({4, 5}, 7.); }  // what the allocator may hand out again
  Tensor x = made([] { return ones({4, 5}); }, true);
  devices.fault().fail_allocation({.nth = 1, .count = 100});
  EXPECT_THROW(x.copy_(on_gpu.transpose(0, 1)), Error);
  devices.fault().clear();
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(20, 1));
}

}  // namespace
}  // namespace lockstep
