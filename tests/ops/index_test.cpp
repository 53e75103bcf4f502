#include "ops/checks.h"
#include "support/test_devices.h"

namespace lockstep {
namespace {

using namespace testing;
using Inputs = std::vector<Tensor>;

TEST(IndexSelect, AlongEachDimension) {
  const Tensor x = arange(12).view({3, 4});
  expect_values(index_select(x, 0, tensor({2, 0})), {8, 9, 10, 11, 0, 1, 2, 3});
  expect_values(index_select(x, 1, tensor({3, 3})), {3, 3, 7, 7, 11, 11});
  expect_values(index_select(x.t(), 0, tensor({1}).to(kInt32)), {1, 5, 9});
  EXPECT_EQ(index_select(x, 1, zeros({0}, {.dtype = kInt64})).sizes(), (Shape{3, 0}));
}

TEST(Nonzero, ListsPlacesInRowMajorOrder) {
  const TestDevices devices(1);
  for (const Device device : {Device("cpu"), Device("cuda:0")}) {
    const Tensor x = tensor({{0., 0.5, 0.}, {-1., 0., kNan}}).to(device);
    EXPECT_EQ(nonzero(x).sizes(), (Shape{3, 2}));
    EXPECT_EQ(nonzero(x).device(), device);
    expect_values(nonzero(x), {0, 1, 1, 0, 1, 2});
    expect_values(nonzero(x.t()), {0, 1, 1, 0, 2, 1});
    expect_values(nonzero(tensor({0, 256, 1 << 20}).to(device)), {1, 2});
  }
  EXPECT_EQ(nonzero(zeros({2, 3})).sizes(), (Shape{0, 2}));
  EXPECT_EQ(nonzero(zeros({2, 0, 3})).sizes(), (Shape{0, 3}));
  EXPECT_EQ(nonzero(tensor(1.)).sizes(), (Shape{1, 0}));
  EXPECT_THROW(nonzero(Tensor()), InvalidArgument);
}

TEST(MaskedSelect, TakesWhatTheMaskHolds) {
  const TestDevices devices(1);
  for (const Device device : {Device("cpu"), Device("cuda:0")}) {
    const Tensor x = arange(6).view({2, 3}).to(device);
    expect_values(masked_select(x, x > 1), {2, 3, 4, 5});
    expect_values(masked_select(x.t(), x.t() > 1), {3, 4, 2, 5});
    expect_values(masked_select(x, tensor({true, false, true}).to(device)), {0, 2, 3, 5});
    expect_values(masked_select(tensor({7, 8}).to(device), tensor({{true}, {false}}).to(device)), {7, 8});
    EXPECT_EQ(masked_select(x, x > 9).sizes(), (Shape{0}));
  }
  gradcheck(
      [](const Inputs& in) {
        return masked_select(in[0], tensor({{true, false}, {true, true}}));
      },
      {random_doubles({2, 2})});
  gradcheck(
      [](const Inputs& in) {
        return masked_select(in[0], tensor({{true, false}, {true, true}}));
      },
      {random_doubles({2})});
  EXPECT_THROW(masked_select(ones({2}), ones({2})), DTypeError);
  EXPECT_THROW(masked_select(ones({2}), tensor({true, false, true})), ShapeError);
  EXPECT_THROW(masked_select(ones({2}), tensor({true, false}).cuda()), DeviceMismatch);
}

TEST(IndexSelect, MovesEveryDtype) {
  for (const DType dtype : {kBool, kUInt8, kInt32, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64}) {
    const Tensor x = tensor({0, 1, 1}).to(dtype);
    EXPECT_EQ(index_select(x, 0, tensor({1, 0})).dtype(), dtype);
    expect_values(index_select(x, 0, tensor({1, 0})), {1, 0});
    expect_values(gather_elements(x, 0, tensor({2, 0})), {1, 0});
  }
}

TEST(Index, OutOfRangeIsAnErrorBeforeAnythingChanges) {
  const Tensor x = zeros({3, 2});
  EXPECT_EQ(message_of<InvalidArgument>([&] {
              index_select(x, 0, tensor({0, 3}));
            }),
            "[index_select] expected indices from 0 to 2, got 3");
  EXPECT_THROW(index_select(x, 0, tensor({-1})), InvalidArgument);
  EXPECT_THROW(gather_elements(x, 1, tensor({{2}, {0}})), InvalidArgument);
  EXPECT_THROW(scatter_add(x, 0, tensor({{9, 0}}), zeros({1, 2})), InvalidArgument);
  EXPECT_THROW(embedding(x, tensor({3})), InvalidArgument);
  EXPECT_THROW(one_hot(tensor({1, 2}), 2), InvalidArgument);
}

TEST(Index, OutOfRangeOnADeviceIsAnErrorOfItsStream) {
  SimulatedDevices devices({.count = 1});
  const Tensor x = zeros({3}).cuda(), bad = tensor({0, 7}).cuda();
  for (const auto& op : {+[](const Tensor&v, const Tensor&i) { return index_select(v, 0, i); },
                         +[](const Tensor&v, const Tensor&i) { return gather_elements(v, 0, i); }}) {
    const Tensor y = op(x, bad);
    EXPECT_THROW(values(y), InvalidArgument);
  }
  expect_values(index_select(x, 0, tensor({1}).cuda()), {0});  // the stream still works
}

TEST(Index, ShapesAndDtypesAreChecked) {
  const Tensor x = zeros({3, 2}), index = tensor({0});
  EXPECT_THROW(index_select(x, 0, tensor({0.0})), DTypeError);
  EXPECT_THROW(index_select(x, 2, index), ShapeError);
  EXPECT_THROW(index_select(x, 0, tensor({{0}})), ShapeError);
  EXPECT_THROW(gather_elements(x, 0, index), ShapeError);
  EXPECT_THROW(gather_elements(x, 0, zeros({1, 3}, {.dtype = kInt64})), ShapeError);
  EXPECT_THROW(scatter_add(x, 0, tensor({{0, 0}}), zeros({1, 1})), ShapeError);
  EXPECT_THROW(scatter_add(x, 0, tensor({{0, 0}}), zeros({1, 2}, {.dtype = kFloat64})), DTypeError);
  EXPECT_THROW(embedding(x, index, 3), InvalidArgument);
  EXPECT_THROW(one_hot(zeros({0}, {.dtype = kInt64})), ShapeError);
}

TEST(GatherElements, IndexMayBeSmallerElsewhere) {
  const Tensor x = arange(12).view({3, 4});
  expect_values(gather_elements(x, 1, tensor({{3, 0}, {1, 1}})), {3, 0, 5, 5});
  expect_values(gather_elements(x.t(), 0, tensor({{3, 0}, {1, 1}})), {3, 4, 1, 5});
}

TEST(ScatterAdd, RepeatedIndicesAdd) {
  const Tensor x = doubles({1, 1, 1}, {3});
  expect_values(scatter_add(x, 0, tensor({2, 2, 0}), doubles({1, 2, 3}, {3})), {4, 1, 4});
  expect_values(scatter_add(x, 0, tensor({2}), doubles({5, 6, 7}, {3})), {1, 1, 6});
  expect_values(x, {1, 1, 1});
  expect_values(scatter_add(tensor({1, 2}), 0, tensor({0, 0}), tensor({10, 20})), {31, 2});
}

TEST(ScatterAdd, CountsFurtherThanEightBits) {
  const Tensor index = zeros({1000}, {.dtype = kInt64}), ones_there = ones({1000}, {.dtype = kBFloat16});
  expect_values(scatter_add(zeros({2}, {.dtype = kBFloat16}), 0, index, ones_there), {1000, 0});
  expect_values(weighted_gradient([&](const Tensor& x) { return sum(gather_elements(x, 0, index)); },
                                  zeros({2}, {.dtype = kBFloat16})),
                {1000, 0});
}

// However a device implements it.
TEST(ScatterAdd, AddsInTheOrderOfTheSourcesOnDevices) {
  const TestDevices devices(1);
  for (const auto& [x, index, source, dim] :
       {std::tuple(randn({7, 3}), randint(0, 7, {90, 3}), randn({90, 3}), 0),
        std::tuple(randn({3, 7}).t(), randint(0, 3, {5, 90}), randn({90, 6}).t(), 1),
        std::tuple(randn({2, 4, 5}), randint(0, 4, {2, 70, 4}), randn({3, 70, 4}), 1),
        std::tuple(randint(-9, 9, {4}), randint(0, 4, {300}), randint(-9, 9, {300}), 0)}) {
    EXPECT_EQ(values(scatter_add(x.cuda(), dim, index.cuda(), source.cuda())),
              values(scatter_add(x, dim, index, source)))
        << x.sizes() << " and " << index.sizes();
  }
}

TEST(Embedding, GradientsOfRepeatedRowsAddAndPaddingHasNone) {
  const Tensor weight = doubles({0, 1, 2, 3, 4, 5}, {3, 2}), index = tensor({{2, 0}, {2, 1}});
  EXPECT_EQ(embedding(weight, index).sizes(), (Shape{2, 2, 2}));
  const auto look_up = [&](std::optional<std::int64_t> padding) {
    return weighted_gradient([=](const Tensor& w) { return embedding(w, index, padding); }, weight);
  };
  expect_values(look_up({}), {3, 4, 7, 8, 6, 8});
  expect_values(look_up(-1), {3, 4, 7, 8, 0, 0});
}

// Simulated devices compute each kernel on one thread, the CPU on all.
TEST(Embedding, GradientDoesNotDependOnThreads) {
  const TestDevices devices(1);
  const Tensor weight = randn({50, 300}), index = randint(0, 50, {4000});
  const auto gradient = [&](Device device) {
    return values(
        weighted_gradient([&](const Tensor& w) { return embedding(w, index.to(device)); }, weight.to(device)));
  };
  if (are_simulated()) {  // cards sum in segments
    EXPECT_EQ(gradient(Device()), gradient(Device::cuda(0)));
  }
  EXPECT_EQ(gradient(Device::cuda(0)), gradient(Device::cuda(0)));
}

// Whole numbers, whose sums are exact in any order. Some places lie within one segment of a card's kernel, some
// continue into others, and some fill several.
TEST(Embedding, GradientOfPlacesWithManyIndices) {
  const TestDevices devices(1);
  manual_seed(8);
  for (const std::int64_t count : {1, 31, 32, 33, 64, 700})
    for (const std::int64_t width : {3, 4, 8}) {  // by elements, and by packs
      const Tensor often = randint(0, 4, {count}) * (randint(0, 3, {count}) > 0).to(kInt64) + 2;
      const Tensor pull = randint(-4, 5, {count, width}).to(kFloat32);
      const auto gradient = [&](Device device, std::optional<std::int64_t> padding, std::int64_t shift) {
        Tensor weight = zeros({7, width}, {.device = device}).requires_grad_();
        Tensor seed = zeros({count * width + shift}, {.device = device}).narrow(0, shift, count * width);
        seed.copy_(pull.reshape({count * width}).to(device));  // with a shift it begins inside of a pack
        embedding(weight, often.to(device), padding).backward(seed.view({count, width}));
        return values(weight.grad());
      };
      for (const std::optional<std::int64_t> padding : {std::optional<std::int64_t>(), std::optional<std::int64_t>(2)})
        for (const std::int64_t shift : {0, 1})
          EXPECT_EQ(gradient(Device(), padding, 0), gradient(Device::cuda(0), padding, shift)) << count;
    }
}

TEST(Runs, AddInTheOrderOfTheIndicesOnDevices) {
  const TestDevices devices(1);
  const Tensor x = randn({3, 7, 5}), index = randint(0, 7, {90});
  const auto selected = [&](Device device) {
    return values(
        weighted_gradient([&](const Tensor& w) { return index_select(w, 1, index.to(device)); }, x.to(device)));
  };
  EXPECT_EQ(selected(Device()), selected(Device::cuda(0)));
  const auto padded = [&](Device device) {
    return values(weighted_gradient([&](const Tensor& w) { return embedding(w, index.to(device), 4); },
                                    x.transpose(0, 1).to(device)));
  };
  EXPECT_EQ(padded(Device()), padded(Device::cuda(0)));
}

TEST(OneHot, CountsItsClasses) {
  const Tensor y = one_hot(tensor({{0, 2}}));
  EXPECT_EQ(y.sizes(), (Shape{1, 2, 3}));
  EXPECT_EQ(y.dtype(), kInt64);
  expect_values(y, {1, 0, 0, 0, 0, 1});
  EXPECT_EQ(one_hot(tensor({1}), 5).sizes(), (Shape{1, 5}));
}

TEST(Index, Gradients) {
  const Tensor x = random_doubles({3, 4}).t();
  const Tensor index = tensor({1, 3, 1}), places = tensor({{0, 2, 1}, {3, 3, 0}});
  expect_gradients([&](const Inputs& in) { return index_select(in[0], 0, index); }, {x});
  expect_gradients([&](const Inputs& in) { return gather_elements(in[0], 0, places); }, {x});
  expect_gradients([&](const Inputs& in) { return scatter_add(in[0], 0, places, in[1]); }, {x, random_doubles({3, 3})});
  expect_gradients([&](const Inputs& in) { return embedding(in[0], index); }, {x});
  EXPECT_NO_THROW(gradgradcheck([&](const Inputs& in) { return embedding(in[0], index, 3); }, {x}));
}

}  // namespace
}  // namespace lockstep
