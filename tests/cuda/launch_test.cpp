// The grids of kernels' launches, from empty tensors to more elements than fit 32 bits: recorded, not run.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include <lockstep/lockstep.h>

#include "cuda/emulation/emulator.h"
#include "cuda/fake_devices.h"

namespace lockstep {
namespace {

using emulation::Launch;
using emulation::settings;

constexpr std::int64_t kBlocks = 1 << 14;  // the most blocks of a grid-stride kernel on a card
constexpr std::int64_t k32Bits = std::int64_t(1) << 32;

class Launches : public ::testing::Test {
 protected:
  Launches() : devices_({.cards = {0}}, 1, true, std::size_t(1) << 44) {
    machine().address_only = true;  // none of the memory is used
    settings().record_only = true;
    settings().max_blocks = kBlocks;
  }
  ~Launches() override { settings() = outer_; }

  // Returns the body's launches. The emulator refuses a grid that a card would refuse.
  template <class Body>
  static std::vector<Launch> of(const Body& body) {
    settings().launches.clear();
    const NoGrad guard;
    body();
    return settings().launches;
  }
  static Tensor bytes(std::int64_t count) { return empty({count}, {.dtype = kUInt8, .device = "cuda:0"}); }
  /// One element, expanded to these sizes.
  static Tensor seen_as(const Shape& sizes, DType dtype = kFloat32) {
    return empty({1}, {.dtype = dtype, .device = "cuda:0"}).expand(sizes);
  }

 private:
  const emulation::Settings outer_ = settings();
  const FakeDevices devices_;
};

TEST_F(Launches, NothingIsLaunchedForNothing) {
  const Tensor none = empty({0, 3}, {.device = "cuda:0"});
  EXPECT_TRUE(of([&] { none + none; }).empty());
  EXPECT_TRUE(of([&] { none.clone().fill_(1); }).empty());
  EXPECT_TRUE(of([&] { sum(none, {1}); }).empty());
  EXPECT_TRUE(of([&] { softmax(none, 1); }).empty());
  EXPECT_TRUE(of([&] { cat({none, none}, 0); }).empty());
  Tensor drawn = none.clone();
  EXPECT_TRUE(of([&] { normal_(drawn, 0, 1); }).empty());
  EXPECT_TRUE(of([&] { none.t().contiguous(); }).empty());
}

TEST_F(Launches, ASumOfNothingIsOneLaunch) {
  const Tensor none = empty({0, 3}, {.device = "cuda:0"});
  EXPECT_EQ(of([&] { sum(none); }).size(), 1u);
  EXPECT_EQ(of([&] { sum(none, {0}); }).size(), 1u);
}

// Returns the number of launches of backward through f's result, with a dense gradient.
template <class F>
std::size_t launches_of_backward(const std::vector<Tensor>& inputs, const F& f) {
  const std::vector<Tensor> y = {f()}, seed = {empty(y[0].sizes(), {.dtype = y[0].dtype(), .device = y[0].device()})};
  settings().launches.clear();
  gradients(y, inputs, seed);
  return settings().launches.size();
}

TEST_F(Launches, NormsOfRowsAreOneLaunchAndTwo) {
  for (const DType dtype : {kFloat32, kBFloat16})
    for (const std::int64_t length : {768, 8192, 1001}) {
      const TensorOptions options = {.dtype = dtype, .device = "cuda:0"};
      const Tensor x = empty({4096, length}, options).requires_grad_(), w = empty({length}, options).requires_grad_(),
                   b = empty({length}, options).requires_grad_();
      EXPECT_EQ(of([&] { nn::layer_norm(x, {length}, w, b); }).size(), 1u);
      EXPECT_EQ(of([&] { nn::rms_norm(x, {length}, w); }).size(), 1u);
      EXPECT_EQ(launches_of_backward({x, w, b}, [&] { return nn::layer_norm(x, {length}, w, b); }), 2u);
      EXPECT_EQ(launches_of_backward({x, w}, [&] { return nn::rms_norm(x, {length}, w); }), 2u);
    }
}

// 16 floats are 4 packs, so a row of packs has 4 threads.
TEST_F(Launches, RowsOfWholePacksHaveAThreadForEachPack) {
  const Tensor x = empty({4096, 16}, {.device = "cuda:0"}), odd = empty({4096, 17}, {.device = "cuda:0"});
  for (const bool logarithm : {false, true}) {
    const auto f = [&](const Tensor& v) { return logarithm ? log_softmax(v, 1) : softmax(v, 1); };
    EXPECT_EQ(of([&] { f(x); }).at(0).blocks.x, 4096 / (256 / 4));
    EXPECT_EQ(of([&] { f(odd.narrow(1, 0, 16)); }).at(0).blocks.x, 4096 / (256 / 16));
  }
  const auto warps = of([&] { softmax(empty({4096, 1024}, {.device = "cuda:0"}), 1); });
  EXPECT_EQ(warps.at(0).blocks.x, 4096 / 8);
  const auto blocks = of([&] { softmax(empty({4096, 1028}, {.device = "cuda:0"}), 1); });
  EXPECT_EQ(blocks.at(0).blocks.x, 4096u);
}

TEST_F(Launches, DropoutIsOneLaunchEachWay) {
  const Tensor x = empty({4096, 768}, {.device = "cuda:0"}).requires_grad_();
  const std::vector<Launch> launches = of([&] { dropout(x.detach(), 0.1); });
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(launches[0].blocks.x, 4096 * 768 / 4 / 256u) << "a thread for every four elements";
  EXPECT_EQ(launches_of_backward({x}, [&] { return dropout(x, 0.1); }), 1u);
}

TEST_F(Launches, TheLossesOfManyRowsAreAddedByManyBlocks) {
  const auto launches_of = [](std::int64_t rows) {
    const Tensor x = empty({rows, 10}, {.device = "cuda:0"});
    const Tensor target = empty({rows}, {.dtype = kInt64, .device = "cuda:0"});
    return of([&] { nn::cross_entropy(x, target); });
  };
  const auto few = launches_of(4095), many = launches_of(1 << 20);
  ASSERT_EQ(many.size(), few.size() + 1);
  std::vector<unsigned> of_few, of_many;
  for (const Launch& launch : few) of_few.push_back(launch.blocks.x);
  for (const Launch& launch : many) of_many.push_back(launch.blocks.x);
  EXPECT_EQ(std::ranges::count(of_few, 1u), std::ranges::count(of_many, 1u)) << "one block adds the pieces";
  EXPECT_EQ(std::ranges::count(of_many, 512u), 1) << "a block for every 2048 rows";
}

TEST_F(Launches, GroupNormIsOneLaunchAndTwo) {
  for (const DType dtype : {kFloat32, kBFloat16})
    for (const std::int64_t groups : {1, 32, 256}) {
      const TensorOptions options = {.dtype = dtype, .device = "cuda:0"};
      const Tensor x = empty({64, 256, 14, 14}, options).requires_grad_(), w = empty({256}, options).requires_grad_(),
                   b = empty({256}, options).requires_grad_();
      EXPECT_EQ(of([&] { nn::group_norm(x, groups, w, b); }).size(), 1u);
      EXPECT_EQ(of([&] { nn::instance_norm(x, {}, {}, w, b); }).size(), 1u);
      EXPECT_EQ(launches_of_backward({x, w, b}, [&] { return nn::group_norm(x, groups, w, b); }), 2u);
      EXPECT_EQ(launches_of_backward({x}, [&] { return nn::group_norm(x, groups, w.detach(), b.detach()); }), 1u);
    }
}

TEST_F(Launches, BatchNormIsThreeLaunchesEachWayAndOneInEvaluation) {
  for (const DType dtype : {kFloat32, kFloat16})
    for (const bool last : {false, true}) {
      const TensorOptions options = {.dtype = dtype, .device = "cuda:0"};
      const Tensor rows = empty({64, 14, 14, 256}, options), planes = empty({64, 256, 14, 14}, options);
      Tensor x = last ? rows.permute({0, 3, 1, 2}) : planes;
      x.requires_grad_();
      const Tensor w = empty({256}, options).requires_grad_(), b = empty({256}, options).requires_grad_();
      const Tensor average = empty({256}, options), variance = empty({256}, options);
      EXPECT_EQ(of([&] { batch_norm(x, average, variance, w, b); }).size(), 3u);
      EXPECT_EQ(of([&] { batch_norm(x, average, variance, w, b, {.training = false}); }).size(), 1u);
      const std::vector<Tensor> y = {batch_norm(x, average, variance, w, b)}, inputs = {x, w, b},
                                seed = {empty_like(y[0].detach())};
      settings().launches.clear();
      gradients(y, inputs, seed);
      EXPECT_EQ(settings().launches.size(), 3u + last);  // a row-major gradient is copied to the layout
    }
}

// 148 parameters, as in a GPT with 12 layers.
TEST_F(Launches, AnOptimizersStepOverManyTensorsIsOneLaunch) {
  std::vector<Tensor> parameters;
  for (int i = 0; i < 148; ++i)
    parameters.push_back(empty({i % 2 ? 768 : 768 * 768}, {.device = "cuda:0"}).requires_grad_());
  optim::AdamW adam(parameters, {.lr = 1e-3});
  for (int i = 0; i < 2; ++i) {
    for (Tensor& parameter : parameters) parameter.set_grad(empty(parameter.sizes(), {.device = "cuda:0"}));
    settings().launches.clear();
    adam.step();
  }
  EXPECT_EQ(settings().launches.size(), 1u);
}

TEST_F(Launches, TheNormOfOneHugeTensorHasManyPieces) {
  std::vector<Tensor> parameters = {empty({1 << 30}, {.device = "cuda:0"}).requires_grad_()};
  parameters[0].set_grad(empty({1 << 30}, {.device = "cuda:0"}));
  settings().launches.clear();
  optim::clip_grad_norm_(parameters, 1);
  ASSERT_GE(settings().launches.size(), 1u);
  EXPECT_EQ(settings().launches[0].blocks.x, 4096u);
}

TEST_F(Launches, RowsOfAnEmbeddingAreTakenInPacks) {
  const Tensor weight = empty({50257, 768}, {.device = "cuda:0"});
  const Tensor index = empty({1024}, {.dtype = kInt64, .device = "cuda:0"});
  const auto launches = of([&] { embedding(weight, index); });
  ASSERT_FALSE(launches.empty());
  EXPECT_EQ(launches.back().blocks.x, 1024 * 768 / 4 / 256u);
}

// A segment has 32 indices.
TEST_F(Launches, GradientsOfAnEmbeddingAreAddedInPacks) {
  for (const auto& [width, packs] : std::vector<std::pair<std::int64_t, std::int64_t>>{{768, 192}, {769, 769}}) {
    const Tensor weight = empty({50257, width}, {.device = "cuda:0"}).requires_grad_();
    const Tensor index = empty({1024}, {.dtype = kInt64, .device = "cuda:0"});
    const std::vector<Tensor> y = {embedding(weight, index)}, seed = {empty({1024, width}, {.device = "cuda:0"})};
    settings().launches.clear();
    gradients(y, std::vector<Tensor>{weight}, seed);
    const std::int64_t blocks = (1024 / 32 * packs + 255) / 256;
    EXPECT_EQ(std::ranges::count(settings().launches, blocks, [](const Launch& launch) { return launch.blocks.x; }), 2)
        << "a launch for the segments, and one for what goes on into others";
  }
}

TEST_F(Launches, ShortRowsAreCopiedByAKernel) {
  const Tensor x = empty({1000, 64}, {.device = "cuda:0"});
  const int before = machine().copies;
  EXPECT_EQ(of([&] { x.narrow(1, 0, 32).contiguous(); }).size(), 1u);
  EXPECT_EQ(machine().copies, before);
}

TEST_F(Launches, SmallTensorsHaveAThreadForEachPackOrElement) {
  for (const std::int64_t count : {1, 4, 5, 1023, 1024, 1025, 100'000}) {
    const Tensor x = empty({count}, {.device = "cuda:0"}), wide = empty({count, 2}, {.device = "cuda:0"});
    const auto dense = of([&] { x + x; }), strided = of([&] { wide.select(1, 0) + x; });
    ASSERT_EQ(dense.size(), 1u);
    EXPECT_EQ(dense[0].threads.x, 256u);
    EXPECT_EQ(dense[0].blocks.x, (count + 1023) / 1024) << count;  // 4 floats are 16 bytes
    ASSERT_EQ(strided.size(), 1u);
    EXPECT_EQ(strided[0].blocks.x, (count + 255) / 256) << count;
  }
}

TEST_F(Launches, LargeOnesStrideOverTheGrid) {
  for (const std::int64_t count : {k32Bits - 1, k32Bits + 1, 40 * k32Bits}) {
    const auto filled = of([&] { bytes(count).fill_(1); });
    ASSERT_EQ(filled.size(), 1u);
    EXPECT_EQ(filled[0].blocks.x, kBlocks);
  }
}

TEST_F(Launches, ReductionsOfAnyShapeAreGridsThatACardTakes) {
  const std::vector<Shape> shapes = {{k32Bits + 7, 1},           {1, k32Bits + 7}, {k32Bits, 3},      {3, k32Bits},
                                     {1 << 20, 1 << 20},         {1, 1, 1},        {1023, 1025},      {5, 1 << 30, 7},
                                     {std::int64_t(1) << 36, 2}, {65'536, 65'536}, {1 << 17, 1 << 19}};
  for (const Shape& sizes : shapes)
    for (int dim = 0; dim < sizes.rank(); ++dim) {
      SCOPED_TRACE(sizes.elements());
      const auto launches = of([&] { sum(seen_as(sizes, kUInt8), {dim}); });
      EXPECT_GE(launches.size(), 1u);
      EXPECT_LE(launches.size(), 2u);
      for (const Launch& launch : launches) EXPECT_EQ(launch.shared_bytes, 0u);
    }
}

TEST_F(Launches, ColumnsAreReducedByABlockForEvery32) {
  for (const std::int64_t columns : {2, 31, 32, 33, 100'000}) {
    const Tensor x = empty({2000, columns}, {.device = "cuda:0"});
    const auto launches = of([&] { sum(x, {0}); });
    ASSERT_GE(launches.size(), 1u);
    EXPECT_EQ(launches[0].blocks.x, (columns + 31) / 32);
    EXPECT_EQ(launches[0].threads.x * launches[0].threads.y, 256u);
  }
}

TEST_F(Launches, LongColumnsAreCutIntoPiecesThatFillACard) {
  constexpr unsigned kMultiprocessors = 132;  // of an H200
  const Tensor x = empty({8192, 1024}, {.device = "cuda:0"});
  const auto launches = of([&] { sum(x, {0}); });
  ASSERT_EQ(launches.size(), 2u);  // the pieces, and their results
  EXPECT_GE(launches[0].blocks.x * launches[0].blocks.y, 2 * kMultiprocessors);
}

TEST_F(Launches, OneLaunchUpdatesManyTensors) {
  std::vector<Tensor> parameters;
  for (int i = 0; i < 40; ++i) {
    Tensor parameter = empty({1000 + i}, {.device = "cuda:0"});
    parameter.requires_grad_().set_grad(empty({1000 + i}, {.device = "cuda:0"}));
    parameters.push_back(parameter);
  }
  optim::SGD optimizer(parameters, {.lr = 0.1});
  const auto launches = of([&] { optimizer.step(); });
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(launches[0].blocks.x, 40u);
}

}  // namespace
}  // namespace lockstep
