// x.index({...}) by tensors, and index_put_, against loops over single elements.
#include <lockstep/ops/layout.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/tensor/indexing.h>

#include "ops/checks.h"
#include "support/test_devices.h"

namespace lockstep {
namespace {

using namespace testing;

TEST(IndexByTensors, TakesTheElementsThatALoopWouldTake) {
  const TestDevices devices(1);
  for (const Device device : {Device("cpu"), Device("cuda:0")}) {
    const Tensor x = arange(60).view({3, 4, 5}).to(device);
    const Tensor rows = tensor({{2, 0, -1}}).to(device), columns = tensor({{1}, {-4}}).to(device).to(kInt32);
    const Tensor together = x.index({rows, columns}), apart = x.index({rows, Slice(1, 4), columns});
    EXPECT_EQ(together.sizes(), (Shape{2, 3, 5}));
    EXPECT_EQ(apart.sizes(), (Shape{2, 3, 3}));
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 3; ++j) {
        const auto row = rows[0][j].item<std::int64_t>(), column = columns[i][0].item<std::int64_t>();
        expect_same(together[i][j], x[row][column]);
        expect_same(apart[i][j], x[row].slice(0, 1, 4).select(1, column));
      }
  }
}

TEST(IndexByTensors, TakesMasksOfSeveralDimensions) {
  const TestDevices devices(1);
  for (const Device device : {Device("cpu"), Device("cuda:0")}) {
    const Tensor x = arange(24).view({2, 3, 4}).to(device);
    const Tensor mask = tensor({{true, false, true}, {false, false, true}}).to(device);
    EXPECT_EQ(x.index({mask}).sizes(), (Shape{3, 4}));
    expect_same(x.index({mask}), stack({x[0][0], x[0][2], x[1][2]}));
    expect_same(x.index({Ellipsis, tensor({false, true, false, true}).to(device)}), x.slice(2, 1, 4, 2).contiguous());
    EXPECT_EQ(x[zeros({2, 3}, {.dtype = kBool, .device = device})].sizes(), (Shape{0, 4}));
  }
}

TEST(IndexByTensors, WritesWhereItReads) {
  const TestDevices devices(1);
  for (const Device device : {Device("cpu"), Device("cuda:0")}) {
    Tensor x = zeros({3, 4, 5}, {.device = device});
    const Tensor rows = tensor({2, 0}).to(device), columns = tensor({4, 1}).to(device);
    const Tensor values = arange(8, {.dtype = kFloat32, .device = device}).view({2, 4}) + 1;
    x.index_put_({rows, Slice(), columns}, values);
    expect_same(x.index({rows, Slice(), columns}), values);
    EXPECT_EQ(sum(x).item<float>(), 36);  // and no other element changed
    x.index_put_({x > 4}, -1);
    EXPECT_EQ(sum(x).item<float>(), 1 + 2 + 3 + 4 - 4);
  }
}

TEST(IndexByTensors, TheLastOfEqualPlacesCounts) {
  const TestDevices devices(1);
  for (const Device device : {Device("cpu"), Device("cuda:0")}) {
    const Tensor places = tensor({1, 0, 1, 1}).to(device), values = tensor({1., 2., 3., 4.}).to(device);
    Tensor x = zeros(3, device);
    expect_values(x.index_put_({places}, values), {2, 4, 0});
    expect_values(zeros(3, device).index_put_({places}, values, true), {2, 8, 0});
    expect_values(scatter_elements(zeros(3, device), 0, places, values), {2, 4, 0});
  }
}

TEST(IndexByTensors, WritesIntoViews) {
  Tensor x = zeros({2, 6});
  Tensor view = x.slice(1, 0, 6, 2).t();  // [3, 2]
  view.index_put_({tensor({0, 2})}, tensor({1., 2.}));
  expect_values(x, {1, 0, 0, 0, 1, 0, 2, 0, 0, 0, 2, 0});
}

TEST(IndexByTensors, RefusesWhatDoesNotFit) {
  const Tensor x = zeros({2, 3});
  EXPECT_THROW(x.index({tensor({2})}), InvalidArgument);
  EXPECT_THROW(x.index({tensor({-3})}), InvalidArgument);
  EXPECT_THROW(x.index({tensor({0.5})}), DTypeError);
  EXPECT_THROW(x.index({tensor({true})}), ShapeError);
  EXPECT_THROW(x.index({tensor({0}), 0, 0}), ShapeError);
  EXPECT_THROW(x.index({tensor({0, 1}), tensor({0, 1, 2})}), ShapeError);
  EXPECT_THROW(x.index({Ellipsis, Ellipsis, tensor({0})}), ShapeError);
  Tensor y = zeros({2, 3});
  EXPECT_THROW(y.index_put_({tensor({0})}, zeros(2)), ShapeError);
  EXPECT_THROW(y.index_put_({tensor({2})}, zeros(3)), InvalidArgument);
  EXPECT_EQ(sum(y).item<float>(), 0);
  const TestDevices devices(1);
  EXPECT_THROW(x.index({tensor({0}, "cuda:0")}), DeviceMismatch);
}

TEST(FromBlob, SharesTheCallersMemoryAndGivesItBack) {
  float values[] = {1, 2, 3, 4};
  int given_back = 0;
  {
    Tensor x = from_blob(values, {2, 2}, {}, [&](void* memory) { given_back += memory == values; });
    const Tensor view = x[1];
    x += 1;
    EXPECT_EQ(values[3], 5);
    x = Tensor();
    EXPECT_EQ(given_back, 0);
    expect_values(view, {4, 5});
  }
  EXPECT_EQ(given_back, 1);
  EXPECT_THROW(from_blob(nullptr, 2), InvalidArgument);
  EXPECT_THROW(from_blob(reinterpret_cast<char*>(values) + 1, 2), InvalidArgument);
  EXPECT_THROW(from_blob(values, 2, "cuda:0"), InvalidArgument);
}

TEST(Remainder, HasTheSignOfTheDivisor) {
  const TestDevices devices(1);
  for (const Device device : {Device("cpu"), Device("cuda:0")}) {
    expect_values(remainder(tensor({-7, 7, -8}).to(device), 4), {1, 3, 0});
    expect_values(remainder(tensor({-7, 7}).to(device), tensor({-4, -4}).to(device)), {-3, -1});
    expect_values(
        remainder(tensor({std::numeric_limits<std::int64_t>::min(), std::int64_t(5)}).to(device), tensor({-1, 0}).to(device)),
        {0, 0});
  }
  EXPECT_THROW(remainder(tensor({1}), 0), InvalidArgument);
}

}  // namespace
}  // namespace lockstep
