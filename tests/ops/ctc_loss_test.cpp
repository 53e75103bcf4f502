// ctc_loss against the sum over all paths; and errors of embedding_bag and channel dropout.
#include <lockstep/ops/likelihood_loss.h>

#include <gtest/gtest.h>

#include <cmath>

#include <lockstep/autograd/autograd.h>
#include <lockstep/ops/dropout.h>
#include <lockstep/ops/embedding_bag.h>

#include "ops/checks.h"
#include "support/test_devices.h"
#include "support/thrown.h"

namespace lockstep::ctc_tests {
namespace {

using testing::expect_values;
using testing::thrown;
using testing::values;

// The word that a sequence of classes spells.
std::vector<std::int64_t> spelled(const std::vector<std::int64_t>& classes) {
  std::vector<std::int64_t> word;
  for (std::size_t i = 0; i < classes.size(); ++i)
    if (classes[i] != 0 && (i == 0 || classes[i] != classes[i - 1])) word.push_back(classes[i]);
  return word;
}

// Computes the loss by enumerating all classes^times sequences.
double loss_by_enumeration(const std::vector<double>& log_probs, std::size_t times, std::int64_t classes,
                           const std::vector<std::int64_t>& target) {
  double total = 0;
  std::vector<std::int64_t> way(times);
  for (;;) {
    if (spelled(way) == target) {
      double sum = 0;
      for (std::size_t t = 0; t < times; ++t) sum += log_probs[t * std::size_t(classes) + std::size_t(way[t])];
      total += std::exp(sum);
    }
    std::size_t t = 0;
    while (t < times && ++way[t] == classes) way[t++] = 0;
    if (t == times) return -std::log(total);
  }
}

TEST(CtcLoss, IsTheSumOverAllWays) {
  const Tensor log_probs = log_softmax(randn({5, 1, 3}, {.dtype = kFloat64}), 2);
  for (const std::vector<std::int64_t>& target : {std::vector<std::int64_t>{1}, {1, 2}, {1, 1}, {2, 1, 2}, {2, 2, 2}}) {
    const Tensor loss = ctc_loss(log_probs, tensor(target).unsqueeze(0), tensor({5}),
                                 tensor({std::int64_t(target.size())}), {.reduction = Reduction::sum});
    EXPECT_NEAR(loss.item<double>(), loss_by_enumeration(values(log_probs), 5, 3, target), 1e-12);
  }
}

TEST(CtcLoss, IsInfiniteWhereTheTargetDoesNotFit) {
  const Tensor x = zeros({2, 1, 3}, {.requires_grad = true});
  const Tensor target = tensor({{1, 1}}), two = tensor({2});
  EXPECT_TRUE(std::isinf(ctc_loss(x, target, two, two).item<double>()));
  const Tensor none = ctc_loss(x, target, two, two, {.zero_infinity = true});
  EXPECT_EQ(none.item<double>(), 0);
  none.backward();
  expect_values(x.grad(), {0, 0, 0, 0, 0, 0});
}

TEST(CtcLoss, IsTheSameOnADevice) {
  const TestDevices devices(1);
  const Tensor x = log_softmax(randn({6, 2, 4}), 2), target = tensor({{1, 2}, {3, 0}}), inputs = tensor({6, 5}),
               lengths = tensor({2, 1});
  const Device device = Device::cuda(0);
  const Tensor there = ctc_loss(x.to(device), target.to(device), inputs.to(device), lengths.to(device));
  EXPECT_NEAR(there.item<double>(), ctc_loss(x, target, inputs, lengths).item<double>(), 1e-6);
}

TEST(CtcLoss, RefusesWhatDoesNotFit) {
  const Tensor x = zeros({4, 2, 3}), target = tensor({{1, 2}, {2, 1}}), two = tensor({2, 2});
  EXPECT_EQ(thrown<ShapeError>([&] { ctc_loss(zeros({4}), target, two, two); }),
            "[ctc_loss] expected log_probs [time, batch, classes] or [time, classes], got [4]");
  EXPECT_EQ(thrown<ShapeError>([&] { ctc_loss(x, target, tensor({2}), two); }),
            "[ctc_loss] expected lengths of shape [2], got [1] and [2]");
  EXPECT_EQ(thrown<ShapeError>([&] { ctc_loss(x, target.narrow(0, 0, 1), two, two); }),
            "[ctc_loss] expected targets [2, longest] or in one dimension, got [1, 2]");
  EXPECT_EQ(thrown<InvalidArgument>([&] { ctc_loss(x, target, two, two, {.blank = 3}); }),
            "[ctc_loss] expected a blank in [0, 3), got 3");
  EXPECT_THROW(ctc_loss(x, target, tensor({5, 2}), two), InvalidArgument);
  EXPECT_THROW(ctc_loss(x, target, two, tensor({3, 2})), InvalidArgument);
  EXPECT_THROW(ctc_loss(x, target + 2, two, two), InvalidArgument);
}

TEST(EmbeddingBag, RefusesWhatDoesNotFit) {
  const Tensor weight = zeros({3, 2}), index = tensor({0, 1});
  EXPECT_EQ(thrown<InvalidArgument>([&] { embedding_bag(weight, index); }),
            "[embedding_bag] expected offsets [bags] for an index of one dimension, got none");
  EXPECT_EQ(thrown<InvalidArgument>([&] { embedding_bag(weight, index.unsqueeze(0), {.offsets = tensor({0})}); }),
            "[embedding_bag] offsets need an index of one dimension, got an index [bags, size]");
  EXPECT_EQ(thrown<InvalidArgument>([&] { embedding_bag(weight, index.unsqueeze(0), {.per_sample_weights = weight}); }),
            "[embedding_bag] per_sample_weights need the mode \"sum\"");
  EXPECT_THROW(embedding_bag(weight, tensor({{0, 3}})), InvalidArgument);
}

TEST(ChannelDropout, DropsWholeChannels) {
  manual_seed(5);
  const std::vector<double> y = values(channel_dropout(ones({20, 30, 7}), 0.25));
  int kept = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    EXPECT_EQ(y[i], y[i / 7 * 7]);
    EXPECT_TRUE(y[i] == 0 || std::abs(y[i] - 4. / 3) < 1e-6);
    kept += y[i] != 0;
  }
  EXPECT_NEAR(kept / 4200., 0.75, 5 * std::sqrt(0.75 * 0.25 / 600));  // five standard deviations
  EXPECT_EQ(thrown<ShapeError>([] { channel_dropout(ones({3})); }),
            "[channel_dropout] expected x [batch, channels, ...], got [3]");
}

TEST(AlphaDropout, KeepsMeanAndVariance) {
  manual_seed(5);
  const Tensor y = alpha_dropout(randn({200000}), 0.3);
  EXPECT_NEAR(mean(y).item<double>(), 0, 0.015);
  EXPECT_NEAR(var(y).item<double>(), 1, 0.015);
  const Tensor x = randn({3, 4});
  EXPECT_TRUE(alpha_dropout(x, 0.3, false).is_same(x));
  EXPECT_TRUE(feature_alpha_dropout(x, 0.3, false).is_same(x));
  EXPECT_EQ(values(alpha_dropout(ones({2}), 1)), (std::vector<double>{0, 0}));
  EXPECT_THROW(alpha_dropout(x, 2), InvalidArgument);
}

}  // namespace
}  // namespace lockstep::ctc_tests
