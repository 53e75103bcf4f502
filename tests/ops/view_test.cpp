// Views against an oracle that moves every element by its index.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <random>

#include <lockstep/autograd/gradcheck.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "support/thrown.h"
#include "support/values.h"
#include "tensor/tensor_impl.h"

namespace lockstep {
namespace {

using testing::random_sizes;
using testing::thrown;

// A row-major array, moved element by element.
struct Array {
  Shape sizes;
  std::vector<std::int64_t> elements;

  using Position = std::vector<std::int64_t>;

  static void each(const Shape& sizes, const std::function<void(const Position&)>& visit) {
    Position position(std::size_t(sizes.rank()), 0);
    for (std::int64_t i = 0; i < sizes.elements(); ++i) {
      std::int64_t rest = i;
      for (int d = sizes.rank() - 1; d >= 0; --d) {
        position[std::size_t(d)] = rest % sizes[d];
        rest /= sizes[d];
      }
      visit(position);
    }
  }
  std::int64_t at(const Position& position) const {
    std::int64_t place = 0;
    for (int d = 0; d < sizes.rank(); ++d) place = place * sizes[d] + position[std::size_t(d)];
    return elements.at(std::size_t(place));
  }
  // The array whose element at p is this one's at source(p).
  Array moved(const Shape& to, const std::function<Position(Position)>& source) const {
    Array result{to, {}};
    each(to, [&](const Position& p) { result.elements.push_back(at(source(p))); });
    return result;
  }
};

using Position = Array::Position;

// Applies one random view to the tensor and to the array.
void step(std::mt19937& random, Tensor& x, Array& array) {
  const Shape& sizes = array.sizes;
  const int rank = sizes.rank();
  const auto pick = [&](std::int64_t bound) { return std::int64_t(random() % std::uint64_t(bound)); };
  const int d = rank ? int(pick(rank)) : 0;
  const auto place = std::size_t(d);
  switch (random() % 8) {
    case 0: {  // select
      if (rank == 0 || sizes[d] == 0) return;
      const std::int64_t index = pick(sizes[d]);
      Shape to = sizes;
      to.erase(d);
      x = x.select(random() % 2 ? d : d - rank, random() % 2 ? index : index - sizes[d]);
      array = array.moved(to, [&](Position p) { return p.insert(p.begin() + d, index), p; });
      return;
    }
    case 1: {  // slice, with positions outside and steps
      if (rank == 0) return;
      const std::int64_t size = sizes[d], start = pick(2 * size + 4) - size - 2, stop = pick(2 * size + 4) - size - 2,
                         by = 1 + pick(3);
      std::vector<std::int64_t> kept;
      const auto from_front = [&](std::int64_t p) { return p < 0 ? p + size : p; };
      for (std::int64_t i = std::max<std::int64_t>(from_front(start), 0); i < std::min(from_front(stop), size); i += by)
        kept.push_back(i);
      Shape to = sizes;
      to[d] = std::int64_t(kept.size());
      x = x.slice(d, start, stop, by);
      array = array.moved(to, [&](Position p) { return p[place] = kept[std::size_t(p[place])], p; });
      return;
    }
    case 2: {  // permute
      std::vector<std::int64_t> order;
      for (int i = 0; i < rank; ++i) order.push_back(i);
      std::shuffle(order.begin(), order.end(), random);
      Shape to = sizes;
      for (int i = 0; i < rank; ++i) to[i] = sizes[int(order[std::size_t(i)])];
      x = x.permute(Shape(order));
      array = array.moved(to, [&](const Position& p) {
        Position q(p);
        for (std::size_t i = 0; i < p.size(); ++i) q[std::size_t(order[i])] = p[i];
        return q;
      });
      return;
    }
    case 3: {  // unsqueeze
      if (rank >= 5) return;
      const auto at = pick(rank + 1);
      Shape to = sizes;
      to.insert(int(at), 1);
      x = x.unsqueeze(random() % 2 ? at : at - rank - 1);
      array = array.moved(to, [&](Position p) { return p.erase(p.begin() + at), p; });
      return;
    }
    case 4: {  // squeeze
      x = x.squeeze(d);
      if (rank && sizes[d] == 1) array.sizes.erase(d);
      return;
    }
    case 5: {  // expand the dimensions of size 1, and one more
      if (rank >= 5) return;
      Shape to = sizes, asked = sizes;
      for (int i = 0; i < rank; ++i)
        if (sizes[i] == 1)
          to[i] = asked[i] = 1 + pick(3);
        else if (random() % 2)
          asked[i] = -1;
      const bool more = random() % 2;
      if (more) to.insert(0, 2), asked.insert(0, 2);
      if (to.elements() > 5000) return;
      x = x.expand(asked);
      array = array.moved(to, [&](Position p) {
        if (more) p.erase(p.begin());
        for (int i = 0; i < rank; ++i)
          if (sizes[i] == 1) p[std::size_t(i)] = 0;
        return p;
      });
      return;
    }
    case 6: {  // transpose
      const int other = rank ? int(pick(rank)) : 0;
      Shape to = sizes;
      if (rank) std::swap(to[d], to[other]);
      x = x.transpose(d, other);
      array = array.moved(to, [&](Position p) {
        if (rank) std::swap(p[place], p[std::size_t(other)]);
        return p;
      });
      return;
    }
    default: {  // narrow
      if (rank == 0) return;
      const std::int64_t length = pick(sizes[d] + 1), start = pick(sizes[d] - length + 1);
      Shape to = sizes;
      to[d] = length;
      x = x.narrow(d, start, length);
      array = array.moved(to, [&](Position p) { return p[place] += start, p; });
    }
  }
}

Shape random_factors(std::mt19937& random, std::int64_t elements) {
  Shape sizes;
  while (elements > 1 && sizes.rank() < 5) {
    std::vector<std::int64_t> divisors;
    for (std::int64_t f = 1; f <= elements; ++f)
      if (elements % f == 0) divisors.push_back(f);
    sizes.push_back(divisors[random() % divisors.size()]);
    elements /= sizes.back();
  }
  if (elements != 1 || sizes.empty()) sizes.push_back(elements);
  return sizes;
}

// True if elements at these addresses, in that shape, have fixed strides.
bool has_strides(const Shape& sizes, const std::vector<std::int64_t>& places) {
  const Array array{sizes, places};
  if (places.empty()) return true;
  std::vector<std::int64_t> strides;
  for (int d = 0; d < sizes.rank(); ++d) {
    Position unit(std::size_t(sizes.rank()), 0);
    unit[std::size_t(d)] = sizes[d] > 1;
    strides.push_back(array.at(unit) - places[0]);
  }
  bool fixed = true;
  Array::each(sizes, [&](const Position& p) {
    std::int64_t expected = places[0];
    for (std::size_t d = 0; d < p.size(); ++d) expected += p[d] * strides[d];
    fixed = fixed && array.at(p) == expected;
  });
  return fixed;
}

TEST(View, MovesEveryElementWhereTheOracleDoes) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    const Shape sizes = random_sizes(random);
    Tensor x = arange(double(sizes.elements())).view(sizes);
    const Storage* const storage = x.impl()->storage;
    Array array{sizes, x.to_vector<std::int64_t>()};
    for (int i = 0; i < 8; ++i) {
      step(random, x, array);
      ASSERT_EQ(x.sizes(), array.sizes) << "seed " << seed << " step " << i;
      ASSERT_EQ(x.to_vector<std::int64_t>(), array.elements) << "seed " << seed << " step " << i;
      ASSERT_EQ(x.impl()->storage, storage);
      ASSERT_EQ(x.clone().to_vector<std::int64_t>(), array.elements);
      ASSERT_EQ(x.numel(), array.sizes.elements());
    }
  }
}

// The elements of `x` are their own addresses: a shape is a view exactly if they have fixed strides in it.
TEST(Reshape, IsAViewExactlyWhereStridesExist) {
  int views = 0, copies = 0;
  for (unsigned seed = 0; seed < 1500; ++seed) {
    std::mt19937 random(seed);
    const Shape sizes = random_sizes(random);
    Tensor x = arange(double(sizes.elements())).view(sizes);
    Array array{sizes, x.to_vector<std::int64_t>()};
    for (auto steps = random() % 5; steps > 0; --steps) step(random, x, array);
    Shape wanted = random_factors(random, array.sizes.elements());
    const bool possible = has_strides(wanted, array.elements);
    const Tensor reshaped = x.reshape(wanted);
    ASSERT_EQ(reshaped.sizes(), wanted);
    ASSERT_EQ(reshaped.to_vector<std::int64_t>(), array.elements) << "seed " << seed;
    ASSERT_EQ(reshaped.impl()->storage == x.impl()->storage, possible)
        << "seed " << seed << ": " << x.sizes() << " with strides " << x.strides() << " to " << wanted;
    if (possible)
      ASSERT_EQ(x.view(wanted).to_vector<std::int64_t>(), array.elements);
    else
      ASSERT_NE(thrown<ShapeError>([&] { x.view(wanted); }).find("use reshape"), std::string::npos);
    ++(possible ? views : copies);
  }
  EXPECT_GT(views, 200);
  EXPECT_GT(copies, 200);
}

TEST(Reshape, FindsOneSize) {
  const Tensor x = arange(24);
  EXPECT_EQ(x.view({2, -1, 4}).sizes(), (Shape{2, 3, 4}));
  EXPECT_EQ(x.reshape({-1}).sizes(), (Shape{24}));
  EXPECT_EQ(zeros({0, 3}).view({-1, 3}).sizes(), (Shape{0, 3}));
  const Tensor same = x.reshape({24});
  EXPECT_FALSE(same.is_same(x)) << "a view, with hooks of its own";
  EXPECT_EQ(same.impl()->data(), x.impl()->data());
}

TEST(Reshape, RefusesWhatDoesNotFit) {
  const Tensor x = arange(24);
  EXPECT_EQ(thrown<ShapeError>([&] { x.view({5, 5}); }), "[view] expected a shape of 24 elements, got [5, 5]");
  EXPECT_THROW(x.view({-1, -1}), ShapeError);
  EXPECT_THROW(x.view({-2, -12}), ShapeError);
  EXPECT_THROW(x.reshape({7, -1}), ShapeError);
  EXPECT_THROW(zeros({0}).view({-1, 0}), ShapeError);
  EXPECT_THROW(x.view({1ll << 32, 1ll << 32}), ShapeError);
  EXPECT_THROW(x.view({24, 1ll << 62, 4}), ShapeError);
  EXPECT_THROW(zeros({0}).view({-1, 1ll << 40, 1ll << 40}), ShapeError);
}

TEST(Flatten, MergesARangeOfDimensions) {
  const Tensor x = arange(24).view({2, 3, 4});
  EXPECT_EQ(x.flatten().sizes(), (Shape{24}));
  EXPECT_EQ(x.flatten(1).sizes(), (Shape{2, 12}));
  EXPECT_EQ(x.flatten(0, 1).sizes(), (Shape{6, 4}));
  EXPECT_EQ(x.flatten(-1, -1).sizes(), (Shape{2, 3, 4}));
  EXPECT_EQ(tensor(3).flatten().sizes(), (Shape{1}));
  EXPECT_EQ(zeros({0, 3, 4}).flatten(1).sizes(), (Shape{0, 12}));
  EXPECT_THROW(x.flatten(2, 1), ShapeError);
  EXPECT_THROW(x.flatten(0, 3), ShapeError);
}

TEST(Select, RefusesAnIndexOutside) {
  const Tensor x = zeros({2, 3});
  EXPECT_EQ(thrown<ShapeError>([&] { x.select(1, 3); }),
            "[select] expected an index in [-3, 2] for dimension 1 of [2, 3], got 3");
  EXPECT_THROW(x[-3], ShapeError);
  EXPECT_THROW(x.select(2, 0), ShapeError);
  EXPECT_THROW(tensor(1)[0], ShapeError);
  EXPECT_THROW(zeros({0, 3})[0], ShapeError);
  EXPECT_THROW(x[std::numeric_limits<std::int64_t>::min()], ShapeError);
}

TEST(SliceView, ClampsAnyPosition) {
  constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min(),
                         most = std::numeric_limits<std::int64_t>::max();
  const Tensor x = arange(10);
  EXPECT_EQ(x.slice(0, lowest, most).numel(), 10);
  EXPECT_EQ(x.slice(0, 3, most, most).to_vector<std::int64_t>(), std::vector<std::int64_t>{3});
  EXPECT_EQ(x.slice(0, 7, 3).numel(), 0);
  EXPECT_EQ(x.slice(0, most, lowest).numel(), 0);
  EXPECT_EQ(x.view({5, 2}).slice(0, 0, 5, most).sizes(), (Shape{1, 2}));
  EXPECT_EQ(thrown<ShapeError>([&] { x.slice(0, 0, 10, 0); }), "[slice] expected a step of at least 1, got 0");
  EXPECT_THROW(x.slice(0, 0, 10, -1), ShapeError);
  EXPECT_THROW(tensor(1).slice(0, 0, 1), ShapeError);
}

TEST(Narrow, RefusesAPartThatIsNotInside) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const Tensor x = zeros({4, 5});
  EXPECT_EQ(thrown<ShapeError>([&] { x.narrow(1, 3, 3); }),
            "[narrow] expected a part of 5 elements, got length 3 from 3");
  EXPECT_THROW(x.narrow(0, -1, 2), ShapeError);
  EXPECT_THROW(x.narrow(0, 0, -1), ShapeError);
  EXPECT_THROW(x.narrow(0, most, 1), ShapeError);
  EXPECT_THROW(x.narrow(0, 1, most), ShapeError);
  EXPECT_EQ(x.narrow(0, 4, 0).sizes(), (Shape{0, 5}));
}

TEST(View, OfNothingPointsNowhere) {
  const Tensor nothing = zeros({3, 0});
  EXPECT_EQ(nothing[2].to_vector<float>(), std::vector<float>());
  EXPECT_EQ(nothing.slice(0, 1, 3).narrow(0, 1, 1).clone().sizes(), (Shape{1, 0}));
  EXPECT_EQ(nothing[2].unsqueeze(0).expand({4, 0}).to(kInt64).numel(), 0);
}

TEST(Permute, NeedsEachDimensionOnce) {
  const Tensor x = zeros({2, 3, 4});
  EXPECT_EQ(thrown<ShapeError>([&] {
              x.permute({0, 1});
            }),
            "[permute] expected each dimension of [2, 3, 4] once, got [0, 1]");
  EXPECT_THROW(x.permute({0, 1, 1}), ShapeError);
  EXPECT_THROW(x.permute({0, 1, 3}), ShapeError);
  EXPECT_THROW(x.permute({0, 1, 2, 3}), ShapeError);
  EXPECT_EQ(x.permute({-1, 0, -2}).sizes(), (Shape{4, 2, 3}));
}

TEST(Transpose, RefusesMoreThanAMatrixByItsShortName) {
  EXPECT_EQ(thrown<ShapeError>([] { zeros({2, 3, 4}).t(); }), "[t] expected at most 2 dimensions, got [2, 3, 4]");
  EXPECT_EQ(zeros({2}).t().sizes(), (Shape{2}));
}

TEST(Expand, RefusesWhatDoesNotBroadcast) {
  const Tensor x = zeros({2, 1});
  EXPECT_EQ(thrown<ShapeError>([&] {
              x.expand({3, 4});
            }),
            "[expand] expected a shape that [2, 1] broadcasts to, got [3, 4]");
  EXPECT_THROW(x.expand({4}), ShapeError);
  EXPECT_THROW(x.expand({}), ShapeError);
  EXPECT_THROW(x.expand({-1, 2, 1}), ShapeError);
  EXPECT_THROW(x.expand({2, -2}), ShapeError);
  EXPECT_THROW(zeros({1, 1}).expand({1ll << 32, 1ll << 32}), ShapeError);
  EXPECT_EQ(x.expand({2, 0}).numel(), 0);
}

TEST(Unsqueeze, RefusesANinthDimension) {
  EXPECT_THROW(zeros({1, 1, 1, 1, 1, 1, 1, 1}).unsqueeze(0), ShapeError);
  EXPECT_THROW(zeros({2}).unsqueeze(2), ShapeError);
}

TEST(ViewGradients, AreThoseOfTheNumericJacobian) {
  std::mt19937 random(8);
  for (int round = 0; round < 30; ++round) {
    const Shape sizes = random_sizes(random, 3, 4);
    const unsigned seed = random();
    const auto chain = [&](const std::vector<Tensor>& inputs) {
      std::mt19937 again(seed);
      Tensor x = inputs[0];
      Array array{sizes, std::vector<std::int64_t>(std::size_t(sizes.elements()))};
      for (int i = 0; i < 4; ++i) step(again, x, array);
      return x.reshape(random_factors(again, x.numel()));
    };
    const Tensor input = randn(sizes, {.dtype = kFloat64});
    gradcheck(chain, {input});
    gradgradcheck(chain, {input});
  }
}

}  // namespace
}  // namespace lockstep
