// cat, stack, chunk, split and unbind.
#include <lockstep/ops/join.h>

#include <gtest/gtest.h>

#include <random>

#include <lockstep/autograd/autograd.h>
#include <lockstep/autograd/gradcheck.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/layout.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/runtime/simulation.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "support/test_devices.h"
#include "support/thrown.h"
#include "support/values.h"

namespace lockstep {
namespace {

using testing::random_sizes;
using testing::thrown;
using testing::values;
using testing::with_gaps;

// Splitting the result gives the parts.
TEST(Cat, HoldsItsPartsInOrder) {
  const TestDevices devices(1);
  std::mt19937 random(4);
  for (int round = 0; round < 60; ++round) {
    const TensorOptions options = {.device = round % 2 ? Device("cuda:0") : Device()};
    Shape sizes = random_sizes(random);
    const int dim = int(random() % unsigned(sizes.rank()));
    std::vector<Tensor> parts;
    for (auto count = 1 + random() % 4; count > 0; --count) {
      sizes[dim] = std::int64_t(random() % 4);
      const Tensor part = randn(sizes, options);
      parts.push_back(random() % 2 && part.numel() ? with_gaps(part) : part);
    }
    const Tensor whole = cat(parts, random() % 2 ? dim : dim - sizes.rank());
    std::int64_t from = 0;
    for (const Tensor& part : parts) {
      EXPECT_EQ(values(whole.narrow(dim, from, part.size(dim))), values(part));
      from += part.size(dim);
    }
    EXPECT_EQ(whole.size(dim), from);
  }
}

TEST(Stack, HoldsItsPartsAlongANewDimension) {
  const Tensor a = randn({2, 3}), b = with_gaps(randn({2, 3}));
  for (int dim = -3; dim <= 2; ++dim) {
    const Tensor whole = stack({a, b}, dim);
    EXPECT_EQ(whole.dim(), 3);
    EXPECT_EQ(values(whole.select(dim, 0)), values(a));
    EXPECT_EQ(values(whole.select(dim, 1)), values(b));
  }
  EXPECT_EQ(stack({tensor(1), tensor(2)}).sizes(), (Shape{2}));
}

TEST(Chunk, RoundsSizesUp) {
  for (std::int64_t size = 0; size <= 12; ++size)
    for (std::int64_t chunks = 1; chunks <= 14; ++chunks) {
      const Tensor x = arange(double(size));
      const std::int64_t length = (size + chunks - 1) / chunks;
      std::vector<double> joined;
      const std::vector<Tensor> parts = chunk(x, chunks);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        if (i + 1 < parts.size()) {
          EXPECT_EQ(parts[i].numel(), length);
        }
        for (const double value : values(parts[i])) joined.push_back(value);
      }
      EXPECT_EQ(joined, values(x));
      EXPECT_EQ(std::int64_t(parts.size()), size ? (size + length - 1) / length : chunks);
    }
}

TEST(Split, GivesViewsOfTheSizes) {
  const Tensor x = arange(12).view({3, 4});
  const std::vector<Tensor> parts = split(x, {1, 0, 3}, 1);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(values(parts[0]), (std::vector<double>{0, 4, 8}));
  EXPECT_EQ(parts[1].sizes(), (Shape{3, 0}));
  EXPECT_EQ(values(parts[2]), (std::vector<double>{1, 2, 3, 5, 6, 7, 9, 10, 11}));
  Tensor(parts[0]).fill_(7);
  EXPECT_EQ(values(x.select(1, 0)), (std::vector<double>{7, 7, 7}));
  EXPECT_EQ(split(arange(20), std::vector<std::int64_t>(20, 1)).size(), 20u);
}

TEST(Unbind, GivesAViewOfEachPlace) {
  const Tensor x = arange(6).view({2, 3});
  const std::vector<Tensor> columns = unbind(x, -1);
  ASSERT_EQ(columns.size(), 3u);
  EXPECT_EQ(values(columns[2]), (std::vector<double>{2, 5}));
  EXPECT_EQ(unbind(x)[1].sizes(), (Shape{3}));
  EXPECT_TRUE(unbind(zeros({0, 3})).empty());
}

// So that the gradient of the tensor behind a permuted view is a view of it.
TEST(Unbind, GivesTheGradientTheLayoutOfTheWhole) {
  for (const bool all : {true, false}) {
    const Tensor whole = randn({2, 3, 4}).permute({1, 2, 0}).requires_grad_(), row = randn({3, 4, 2});
    const Tensor gapped = with_gaps(whole).requires_grad_();
    const auto gradient_of = [&](const Tensor& x) {
      const std::vector<Tensor> parts = unbind(x);
      Tensor total = sum(parts[1] * row[1]);
      if (all) total = total + sum(parts[0] * row[0]) + sum(parts[2] * row[2]);
      return gradients(std::vector{total}, std::vector{x})[0];
    };
    Tensor expected = row.clone();
    if (!all) expected.select(0, 0).fill_(0), expected.select(0, 2).fill_(0);
    EXPECT_EQ(gradient_of(whole).strides(), whole.strides());
    EXPECT_EQ(values(gradient_of(whole)), values(expected));
    EXPECT_TRUE(gradient_of(gapped).is_contiguous());  // memory with gaps has no layout to keep
    EXPECT_EQ(values(gradient_of(gapped)), values(expected));
  }
}

TEST(Join, HasTheGradientsOfTheNumericJacobian) {
  const Tensor a = randn({2, 3}, {.dtype = kFloat64}), b = randn({2, 1}, {.dtype = kFloat64}),
               c = randn({2, 3}, {.dtype = kFloat64});
  gradcheck([](const std::vector<Tensor>& in) { return cat(in, 1); }, {a, b, c});
  gradcheck([](const std::vector<Tensor>& in) { return cat(in, 0); }, {a, c});
  gradcheck([](const std::vector<Tensor>& in) { return stack(in, 1); }, {a, c});
  gradcheck([](const std::vector<Tensor>& in) { return chunk(in[0], 2, 1); }, {a});
  gradcheck([](const std::vector<Tensor>& in) { return split(in[0], {1, 2}, 1); }, {a});
  gradcheck([](const std::vector<Tensor>& in) { return unbind(in[0], 1); }, {a});
  gradgradcheck([](const std::vector<Tensor>& in) { return cat(in, 1); }, {a, b});
}

TEST(JoinRefuses, WhatDoesNotFitTheFirstByItsNumber) {
  SimulatedDevices devices({.count = 2});
  const Tensor x = zeros({2, 3});
  EXPECT_EQ(thrown<InvalidArgument>([] { cat(std::vector<Tensor>()); }),
            "[cat] expected at least one tensor, got none");
  EXPECT_THROW(stack(std::vector<Tensor>()), InvalidArgument);
  EXPECT_EQ(thrown<ShapeError>([&] {
              cat({x, zeros({2, 4})});
            }),
            "[cat] expected sizes that agree except in dimension 0, got [2, 3] in tensor 0 and [2, 4] in tensor 1");
  EXPECT_THROW(cat({x, zeros({2})}), ShapeError);
  EXPECT_THROW(cat({tensor(1.)}), ShapeError);
  EXPECT_THROW(cat({x}, 2), ShapeError);
  EXPECT_EQ(thrown<DTypeError>([&] {
              cat({x, zeros({2, 3}, {.dtype = kInt64})});
            }),
            "[cat] expected float32 as in tensor 0, got int64 in tensor 1");
  EXPECT_EQ(thrown<ShapeError>([&] {
              stack({x, x, zeros({3, 2})});
            }),
            "[stack] expected [2, 3] as in tensor 0, got [3, 2] in tensor 2");
  EXPECT_THROW(stack({x}, 3), ShapeError);
  EXPECT_THROW(cat({x, Tensor()}), InvalidArgument);
  EXPECT_THROW(chunk(x, 0), InvalidArgument);
  EXPECT_THROW(chunk(tensor(1), 2), ShapeError);
  EXPECT_EQ(thrown<ShapeError>([&] {
              split(x, {1, 3});
            }),
            "[split] expected sizes that add up to 2, got 3 where 1 elements are left");
  EXPECT_EQ(thrown<ShapeError>([&] { split(x, std::vector<std::int64_t>{1}); }),
            "[split] expected sizes that add up to 2, got 1");
  EXPECT_THROW(split(x, {3, -1}), ShapeError);
  EXPECT_EQ(thrown<ShapeError>([&] { split(x, {2}, 2); }), "[split] expected a dimension in [-2, 1], got 2");
  EXPECT_EQ(thrown<ShapeError>([] { unbind(tensor(1)); }),
            "[unbind] expected a tensor with dimensions, got a 0-dim one");

  const Tensor on_gpu = zeros({2, 3}, {.device = "cuda:0"}), on_other = zeros({2, 3}, {.device = "cuda:1"});
  const OperationCounts before = devices.counts(0);
  EXPECT_THROW(cat({on_gpu, on_other}), DeviceMismatch);
  EXPECT_THROW(stack({on_gpu, x}), DeviceMismatch);
  EXPECT_EQ(devices.counts(0).allocations, before.allocations);
  EXPECT_EQ(devices.counts(0).launches, before.launches);
}

}  // namespace
}  // namespace lockstep
