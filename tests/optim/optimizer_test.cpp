// Properties of all optimizers: groups, missing gradients, zero_grad, errors.
#include <gtest/gtest.h>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/nn/layers.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/optim/adagrad.h>
#include <lockstep/optim/adam.h>
#include <lockstep/optim/nadam.h>
#include <lockstep/optim/rmsprop.h>
#include <lockstep/optim/sgd.h>
#include <lockstep/tensor/creation.h>

#include "support/test_devices.h"

namespace lockstep {
namespace {

Tensor parameter(std::initializer_list<double> values, const TensorOptions& options = {}) {
  return tensor(values, options).requires_grad_();
}
std::vector<float> values(const Tensor& tensor) { return tensor.detach().to_vector<float>(); }

template <class E, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  return "nothing thrown";
}

TEST(Optimizer, TrainsAModule) {
  nn::Linear model(3, 2);
  optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  const Tensor input = ones({4, 3});
  const auto loss = [&] { return sum(model(input)); };
  const auto before = loss().item<float>();
  for (int i = 0; i < 3; ++i) {
    optimizer.zero_grad();
    loss().backward();
    optimizer.step();
  }
  EXPECT_LT(loss().item<float>(), before);
}

TEST(Optimizer, SkipsParametersWithoutAGradient) {
  Tensor a = parameter({1, 2}), b = parameter({3});
  optim::SGD optimizer({a, b}, {.lr = 0.5});
  a.set_grad(tensor({1., 1.}));
  optimizer.step();
  EXPECT_EQ(values(a), (std::vector<float>{0.5, 1.5}));
  EXPECT_EQ(values(b), std::vector<float>{3});
  EXPECT_FALSE(optimizer.state_dict().find("state.1.step"));
}

// A parameter whose first gradient comes late starts at its own step 1.
TEST(Optimizer, CountsStepsForEachParameter) {
  Tensor a = parameter({1, 2}), late = parameter({1, 2});
  optim::Adam optimizer({a, late}, {.lr = 0.5});
  a.set_grad(tensor({1., -3.}));
  optimizer.step();
  const std::vector<float> after_one = values(a);
  a.set_grad({});
  late.set_grad(tensor({1., -3.}));
  optimizer.step();
  EXPECT_EQ(values(late), after_one);
}

// In one step() one parameter takes its third step, the other its second.
TEST(Optimizer, StepsParametersOfOtherCountsTogether) {
  const auto train = [](bool first, bool second) {
    Tensor a = parameter({1, 2}), b = parameter({1, 2});
    optim::Adam optimizer({a, b}, {.lr = 0.1});
    for (int step = 0; step < 3; ++step) {
      a.set_grad(first ? tensor({1. + step, -3. * step}) : Tensor());
      b.set_grad(second && step > 0 ? tensor({1. + step, -3. * step}) : Tensor());
      if (first || step > 0) optimizer.step();
    }
    return std::pair(values(a), values(b));
  };
  const auto [a, b] = train(true, true);
  EXPECT_EQ(a, train(true, false).first);
  EXPECT_EQ(b, train(false, true).second);
}

// Two parameters at the same step, one of which had another momentum before.
TEST(Optimizer, KeepsAMomentumProductForEachParameter) {
  const auto train = [](bool first, bool second) {
    Tensor a = parameter({1, 2}), b = parameter({1, 2});
    optim::NAdam optimizer({a, b}, {.lr = 0.1});
    const auto step = [&](bool has_a, bool has_b, double momentum) {
      a.set_grad(has_a ? tensor({1., -3.}) : Tensor());
      b.set_grad(has_b ? tensor({1., -3.}) : Tensor());
      optimizer.set_momentum(momentum, 0);
      optimizer.step();
    };
    if (first) step(true, false, 0.9);
    if (second) step(false, true, 0.5);
    step(first, second, 0.9);
    return std::pair(values(a), values(b));
  };
  const auto [a, b] = train(true, true);
  EXPECT_EQ(a, train(true, false).first);
  EXPECT_EQ(b, train(false, true).second);
  EXPECT_NE(a, b);
}

TEST(Optimizer, TakesTheFirstGradientWholeWheneverItComes) {
  Tensor a = parameter({0}), late = parameter({0});
  optim::SGD optimizer({a, late}, {.lr = 1, .momentum = 0.5, .dampening = 0.5});
  a.set_grad(tensor({4.}));
  optimizer.step();
  late.set_grad(tensor({4.}));
  optimizer.step();
  EXPECT_EQ(values(a), std::vector<float>{-8});  // 4, then 0.5 * 4 + 0.5 * 4
  EXPECT_EQ(values(late), std::vector<float>{-4});
}

TEST(Optimizer, TakesTheFirstGradientOfAMomentumThatBeginsLaterWhole) {
  Tensor a = parameter({0});
  optim::SGD optimizer({a}, {.lr = 1});
  a.set_grad(tensor({4.}));
  optimizer.step();
  optimizer.options().momentum = optimizer.options().dampening = 0.5;
  optimizer.step();
  EXPECT_EQ(values(a), std::vector<float>{-8});
}

TEST(Optimizer, KeepsEachGroupsOptions) {
  Tensor a = parameter({1}), b = parameter({1}), c = parameter({1});
  optim::SGD optimizer({{{a}, {.lr = 0.5}}, {{b}, {.lr = 0.25}}});
  optimizer.add_param_group({{c}, {.lr = 0.125}});
  for (Tensor p : {a, b, c}) p.set_grad(tensor({1.}));
  optimizer.step();
  EXPECT_EQ(values(a), std::vector<float>{0.5});
  EXPECT_EQ(values(b), std::vector<float>{0.75});
  EXPECT_EQ(values(c), std::vector<float>{0.875});
  EXPECT_EQ(optimizer.group_count(), 3u);
  EXPECT_EQ(optimizer.lr(2), 0.125);
  optimizer.set_lr(1, 1);
  EXPECT_EQ(optimizer.lr(0), 0.5);
  EXPECT_EQ(optimizer.options(1).lr, 1);
}

TEST(Optimizer, ShowsItsGroupsWithOptionsToChange) {
  const Tensor a = ones({2}).requires_grad_(), b = ones({3}).requires_grad_();
  optim::SGD optimizer({{{a}, {.lr = 1}}, {{b}, {.lr = 2}}});
  for (auto& group : optimizer.param_groups()) group.options.lr *= double(group.params[0].numel());
  EXPECT_EQ(optimizer.lr(0), 2);
  EXPECT_EQ(optimizer.lr(1), 6);
  EXPECT_TRUE(optimizer.param_groups()[1].params[0].is_same(b));
}

TEST(Optimizer, TakesAClosureThatComputesTheLoss) {
  const Tensor x = tensor({3.}).requires_grad_();
  optim::SGD optimizer({x}, {.lr = 0.5});
  const NoGrad guard;  // the closure computes gradients anyway
  const Tensor loss = optimizer.step([&] {
    optimizer.zero_grad();
    Tensor squares = (x * x).sum();
    squares.backward();
    return squares;
  });
  EXPECT_EQ(loss.item<double>(), 9);
  EXPECT_EQ(x.detach().item<double>(), 0);
}

TEST(Optimizer, MixesDTypesAndDevices) {
  const TestDevices devices(2);
  Tensor a = parameter({1}), b = parameter({1}, {.dtype = kFloat64, .device = Device("cuda:0")}),
         c = parameter({1}, {.dtype = kFloat16, .device = Device("cuda:1")});
  optim::SGD optimizer({a, b, c}, {.lr = 0.5});
  for (Tensor p : {a, b, c}) p.set_grad(ones_like(p));
  optimizer.step();
  for (const Tensor& p : {a, b, c}) EXPECT_EQ(p.item<double>(), 0.5);
}

TEST(Optimizer, FollowsParametersThatMove) {
  const TestDevices devices(1);
  nn::Linear stays(3, 2);
  nn::Linear moves(stays);
  optim::Adam a(stays.parameters(), {}), b(moves.parameters(), {});
  const auto train = [](nn::Linear& model, optim::Optimizer& optimizer) {
    optimizer.zero_grad();
    sum(model(ones({4, 3}, {.device = model.weight.device()}))).backward();
    optimizer.step();
  };
  train(stays, a);
  train(moves, b);
  moves.to("cuda:0");
  train(stays, a);
  train(moves, b);
  EXPECT_EQ(values(moves.weight), values(stays.weight));
}

TEST(Optimizer, FollowsParametersThatChangeTheirDType) {
  nn::Linear stays(3, 2);
  nn::Linear changes(3, 2);
  changes.load_state_dict(stays.state_dict());
  optim::Adam a(stays.parameters(), {}), b(changes.parameters(), {});
  const auto train = [](nn::Linear& model, optim::Optimizer& optimizer) {
    optimizer.zero_grad();
    sum(model(ones({4, 3}, {.dtype = model.weight.dtype()}))).backward();
    optimizer.step();
  };
  for (int step = 0; step < 3; ++step) {
    train(stays, a);
    train(changes, b);
    changes.to(kFloat64);
  }
  const std::vector<float> expected = values(stays.weight), got = values(changes.weight.to(kFloat32));
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-6) << i;
}

TEST(Optimizer, CountsTheChange) {
  Tensor a = parameter({1});
  optim::SGD optimizer({a}, {.lr = 0.5});
  a.set_grad(tensor({1.}));
  const auto before = a.version();
  optimizer.step();
  EXPECT_GT(a.version(), before);
  EXPECT_TRUE(a.is_leaf());
}

TEST(Optimizer, TakesStridedGradients) {
  Tensor a = zeros({2, 3}).requires_grad_();
  optim::SGD optimizer({a}, {.lr = 1});
  a.set_grad(tensor({{1., 2.}, {3., 4.}, {5., 6.}}).t());
  optimizer.step();
  EXPECT_EQ(values(a), (std::vector<float>{-1, -3, -5, -2, -4, -6}));
}

TEST(Optimizer, RefusesToStepWhenNoParameterEverHadAGradient) {
  nn::Linear net(2, 1), trained = copy(net);
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  sum(trained(ones({1, 2}))).backward();
  optimizer.zero_grad();
  EXPECT_EQ(
      message_of<AutogradError>([&] { optimizer.step(); }),
      "[SGD] expected a parameter with a gradient, but none has had one since the optimizer was made: call backward() "
      "before "
      "step(), and give the optimizer the parameters of the module that runs, not of one that it was copied from");
}

TEST(Optimizer, StepsWithoutGradientsOnceItHadOne) {
  Tensor a = parameter({1, 2}), never = parameter({3});
  optim::SGD stepped({a, never}, {.lr = 0.5}), zeroed({a, never}, {.lr = 0.5});
  a.set_grad(tensor({1., 1.}));
  stepped.step();
  zeroed.zero_grad();
  stepped.step();
  zeroed.step();
  EXPECT_EQ(values(a), (std::vector<float>{0.5, 1.5}));
}

TEST(ZeroGrad, DropsGradientsOrZeroesThemWhereTheyAre) {
  Tensor a = parameter({1, 2}), b = parameter({3, 4});
  optim::SGD optimizer({a, b}, {});
  Tensor bucket = ones({4});
  a.set_grad(bucket.narrow(0, 0, 2));
  b.set_grad(bucket.narrow(0, 2, 2));
  const auto before = bucket.version();
  optimizer.zero_grad(false);
  EXPECT_EQ(values(bucket), std::vector<float>(4));
  EXPECT_GT(bucket.version(), before);
  EXPECT_TRUE(a.grad().defined());
  optimizer.zero_grad();
  EXPECT_FALSE(a.grad().defined());
  a.set_grad(ones({1}).expand({2}));  // has no memory of its own to zero
  optimizer.zero_grad(false);
  EXPECT_EQ(values(a.grad()), std::vector<float>(2));
}

TEST(Refusals, NameTheParameter) {
  const Tensor good = parameter({1});
  const auto make = [&](const Tensor& bad) { return [&, bad] { optim::SGD({good, bad}, {}); }; };
  EXPECT_EQ(
      message_of<InvalidArgument>(make({})),
      "[SGD] expected parameter 1 to have a shape, got an undefined tensor: run a batch through lazy modules first");
  EXPECT_EQ(message_of<InvalidArgument>(make(good)), "[SGD] expected each parameter once, got parameter 1 again");
  EXPECT_EQ(message_of<DTypeError>(make(tensor({1}))), "[SGD] expected parameter 1 of a floating dtype, got int64");
  EXPECT_EQ(message_of<InvalidArgument>(make(sum(good))),
            "[SGD] expected parameter 1 to be a leaf, got the result of SumBackward");
  EXPECT_EQ(message_of<InvalidArgument>([] { optim::SGD(std::vector<Tensor>(), {}); }),
            "[SGD] expected at least one parameter, got none");
  EXPECT_EQ(message_of<InvalidArgument>([] { optim::SGD(std::vector<optim::SGD::Group>()); }),
            "[SGD] expected at least one parameter, got none");
  optim::SGD optimizer({good}, {});
  EXPECT_THROW(optimizer.add_param_group({{good}}), InvalidArgument);
  EXPECT_THROW(optimizer.lr(1), InvalidArgument);
}

TEST(Refusals, NameTheOption) {
  const std::vector<Tensor> p = {parameter({1})};
  EXPECT_EQ(message_of<InvalidArgument>([&] { optim::SGD(p, {.lr = -1}); }), "[SGD] expected lr >= 0, got -1");
  EXPECT_EQ(message_of<InvalidArgument>([&] { optim::SGD(p, {.nesterov = true}); }),
            "[SGD] expected momentum > 0 with nesterov, got 0");
  EXPECT_EQ(message_of<InvalidArgument>(
                [&] { optim::SGD(p, {.momentum = 0.5, .dampening = std::numeric_limits<double>::quiet_NaN()}); }),
            "[SGD] expected a finite dampening, got nan");
  EXPECT_EQ(message_of<InvalidArgument>([&] {
              optim::AdamW(p, {.betas = {0.9, 1}});
            }),
            "[AdamW] expected betas in [0, 1), got 1");
  EXPECT_THROW(optim::Adam(p, {.lr = std::numeric_limits<double>::quiet_NaN()}), InvalidArgument);
  optim::RMSprop optimizer(p, {});
  optimizer.options().alpha = -1;
  EXPECT_EQ(message_of<InvalidArgument>([&] { optimizer.step(); }), "[RMSprop] expected alpha >= 0, got -1");
}

TEST(Refusals, OfStridedParametersAndOfOtherShapesChangeNothing) {
  Tensor a = parameter({1, 2}), strided = ones({2, 3}).t().requires_grad_();
  optim::Adagrad optimizer({a, strided}, {});
  a.set_grad(tensor({1., 1.}));
  strided.set_grad(ones({3, 2}));
  EXPECT_EQ(message_of<InvalidArgument>([&] { optimizer.step(); }),
            "[Adagrad] expected parameter 1 to be contiguous, got strides [1, 3] on cpu");
  EXPECT_EQ(values(a), (std::vector<float>{1, 2}));
}

TEST(Refusals, OfAParameterThatTookAnotherShapeChangeNothing) {
  nn::Parameter p(ones({2, 3}));
  optim::Adam optimizer({p}, {});
  p.set_grad(ones({2, 3}));
  optimizer.step();
  p.reset(ones({3, 2}));
  p.set_grad(ones({3, 2}));
  EXPECT_EQ(message_of<InvalidArgument>([&] { optimizer.step(); }),
            "[Adam] expected parameter 0 to keep its shape [2, 3], got [3, 2]");
  EXPECT_EQ(values(p), std::vector<float>(6, 1));
}

TEST(Momentum, IsReadAndWrittenByItsOwnName) {
  const std::vector<Tensor> p = {parameter({1})};
  optim::SGD sgd(p, {.momentum = 0.5});
  optim::Adam adam(p, {});
  optim::Adagrad adagrad(p, {});
  EXPECT_EQ(sgd.momentum(), 0.5);
  EXPECT_EQ(adam.momentum(), 0.9);
  EXPECT_FALSE(adagrad.momentum());
  adam.set_momentum(0.7, 0);
  EXPECT_EQ(adam.options().betas, (std::array{0.7, 0.999}));
  EXPECT_THROW(adagrad.set_momentum(0.7, 0), InvalidArgument);
}

}  // namespace
}  // namespace lockstep
