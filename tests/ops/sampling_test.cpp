// Draws from distributions: frequencies against probabilities, within five standard deviations.
#include <cmath>

#include <lockstep/ops/distributions.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/sampling.h>
#include <lockstep/tensor/random.h>

#include "ops/checks.h"
#include "support/test_devices.h"

namespace lockstep {
namespace {

using namespace testing;

void expect_frequencies(const Tensor& drawn, const std::vector<double>& probabilities) {
  const double count = double(drawn.numel());
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    const double p = probabilities[i], seen = sum(drawn == double(i)).item<double>();
    EXPECT_NEAR(seen / count, p, 5 * std::sqrt(p * (1 - p) / count) + 1e-12) << "class " << i;
  }
}

TEST(Multinomial, DrawsAsOftenAsTheWeightsSay) {
  const TestDevices devices(1);
  for (const Device device : {Device("cpu"), Device("cuda:0")}) {
    manual_seed(5);
    const Tensor weights = tensor({{0., 1., 0., 3., 0.}, {2., 0., 2., 0., 4.}}).to(device);
    const Tensor drawn = multinomial(weights, 20000, true);
    EXPECT_EQ(drawn.sizes(), (Shape{2, 20000}));
    expect_frequencies(drawn[0], {0, 0.25, 0, 0.75, 0});
    expect_frequencies(drawn[1], {0.25, 0, 0.25, 0, 0.5});
  }
}

TEST(Multinomial, WithoutReplacementDrawsEachPlaceOnce) {
  manual_seed(6);
  const Tensor weights = tensor({1., 2., 0., 5.}).expand({20000, 4});
  const Tensor drawn = multinomial(weights, 3);
  EXPECT_TRUE(all(sum(drawn, 1) == 4).item<bool>());  // 0 + 1 + 3: never index 2
  expect_frequencies(drawn.select(1, 0), {0.125, 0.25, 0, 0.625});
  EXPECT_THROW(multinomial(tensor({1., 0.}), 2), InvalidArgument);
}

TEST(Multinomial, RefusesWeightsThatAreNone) {
  EXPECT_THROW(multinomial(tensor({1., -1.}), 1), InvalidArgument);
  EXPECT_THROW(multinomial(tensor({1., kNan}), 1), InvalidArgument);
  EXPECT_THROW(multinomial(tensor({0., 0.}), 1, true), InvalidArgument);
  EXPECT_THROW(multinomial(tensor({1, 2}), 1), DTypeError);
  EXPECT_THROW(multinomial(ones({2, 2, 2}), 1), ShapeError);
  EXPECT_EQ(multinomial(ones({2, 3}), 0).sizes(), (Shape{2, 0}));
}

TEST(Bernoulli, DrawsOnesAsOftenAsSaid) {
  manual_seed(7);
  expect_frequencies(bernoulli(full(20000, 0.3)), {0.7, 0.3});
  expect_frequencies(empty(20000).bernoulli_(0.9), {0.1, 0.9});
  Tensor x = zeros(2);
  EXPECT_THROW(x.bernoulli_(1.5), InvalidArgument);
}

TEST(Normal, HasItsMeansAndDeviations) {
  manual_seed(8);
  const Tensor x = normal(tensor({{1.}, {-5.}}).expand({2, 20000}), tensor({{2.}, {0.5}}));
  expect_close(mean(x, 1), {1, -5}, 0.1);
  expect_close(stddev(x, 1), {2, 0.5}, 0.1);
  expect_close(mean(normal(3, 0.1, 20000)).view(1), {3}, 0.01);
}

TEST(Distributions, SampleWhatTheyAre) {
  manual_seed(9);
  using namespace distributions;
  expect_frequencies(Categorical(tensor({1., 3.})).sample(20000), {0.25, 0.75});
  expect_frequencies(Bernoulli({.logits = tensor(0.)}).sample(20000), {0.5, 0.5});
  EXPECT_EQ(Categorical(ones({2, 3, 4})).sample({5}).sizes(), (Shape{5, 2, 3}));
  EXPECT_EQ(Normal(zeros({2, 1}), ones(3)).sample({4}).sizes(), (Shape{4, 2, 3}));
  const Tensor uniform = Uniform(-1, 3).sample(20000);
  EXPECT_GE(min(uniform).item<float>(), -1);
  EXPECT_LT(max(uniform).item<float>(), 3);
  EXPECT_THROW(Bernoulli(Probabilities{}), InvalidArgument);
  EXPECT_THROW(Normal(zeros({2}), ones({3})), ShapeError);
}

TEST(Distributions, EntropyIsMinusTheMeanOfLogProb) {
  using namespace distributions;
  const Tensor probs = tensor({0.2, 0.3, 0.5}, kFloat64);
  const Categorical categorical(probs);
  expect_close(categorical.entropy().view(1), {-sum(probs * categorical.log_prob(arange(3))).item<double>()}, 1e-12);
  // Entropies of a uniform and a normal distribution against sums over a grid.
  const Tensor grid = linspace(-12, 12, 24001, kFloat64);
  const Normal normal(full({}, 0.5, kFloat64), full({}, 1.5, kFloat64));
  const Tensor log_density = normal.log_prob(grid);
  expect_close(normal.entropy().view(1), {-sum(exp(log_density) * log_density).item<double>() * 0.001}, 1e-6);
}

TEST(Distributions, GradientsFlowThroughReparameterizedSamples) {
  using namespace distributions;
  const Tensor loc = zeros(3).requires_grad_(), scale = ones(3).requires_grad_();
  manual_seed(3);
  sum(Normal(loc, scale).rsample()).backward();
  manual_seed(3);
  const Tensor noise = randn(3);
  expect_same(loc.grad(), ones(3));
  expect_same(scale.grad(), noise);
  EXPECT_FALSE(Normal(loc, scale).sample().requires_grad());
}

}  // namespace
}  // namespace lockstep
