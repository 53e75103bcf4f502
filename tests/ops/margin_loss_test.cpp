// Losses with margins, likelihoods and distances: errors, and devices. tests/reference compares their values with
// PyTorch's.
#include <lockstep/ops/margin_loss.h>

#include <gtest/gtest.h>

#include <lockstep/ops/distance.h>
#include <lockstep/ops/likelihood_loss.h>

#include "ops/checks.h"
#include "support/thrown.h"

namespace lockstep::margin_loss_tests {
namespace {

using testing::doubles;
using testing::expect_values;
using testing::thrown;

TEST(MarginLosses, RefuseShapesThatDoNotFit) {
  const Tensor x = zeros({3, 4});
  EXPECT_EQ(thrown<ShapeError>([&] { margin_ranking_loss(x, x, zeros({3})); }),
            "[margin_ranking_loss] expected a target of shape [3, 4], got [3]");
  EXPECT_EQ(thrown<ShapeError>([&] { cosine_embedding_loss(x, x, zeros({4})); }),
            "[cosine_embedding_loss] expected rows [rows, features] and a target [rows], or [features] and a 0-dim "
            "target, got [3, 4] and [4]");
  EXPECT_EQ(thrown<ShapeError>([&] {
              multi_margin_loss(x, tensor({1, 2}));
            }),
            "[multi_margin_loss] expected a target of shape [3] for x [3, 4], got [2]");
  EXPECT_EQ(thrown<InvalidArgument>([&] {
              multi_margin_loss(x, tensor({1, 2, 0}), {.p = 3});
            }),
            "[multi_margin_loss] expected p 1 or 2, got 3");
  EXPECT_EQ(thrown<ShapeError>([&] {
              multilabel_margin_loss(zeros({2, 2, 2}), zeros({2, 2, 2}));
            }),
            "[multilabel_margin_loss] expected x [rows, classes] or [classes], got [2, 2, 2]");
  EXPECT_THROW(multilabel_margin_loss(x, zeros({3, 4})), DTypeError);
  EXPECT_THROW(multi_margin_loss(x, tensor({1, 2, 4})), InvalidArgument);
  EXPECT_THROW(soft_margin_loss(tensor({1, 2}), tensor({1, 2})), DTypeError);
}

TEST(MultiMarginLoss, TakesARowByItself) {
  EXPECT_DOUBLE_EQ(multi_margin_loss(doubles({0.1, 0.2, 0.4, 0.8}, {4}), tensor(3)).item<double>(),
                   (0.3 + 0.4 + 0.6) / 4);
}

TEST(SoftMarginLoss, DoesNotOverflow) {
  expect_values(soft_margin_loss(doubles({-1000, 1000}, {2}), doubles({1, 1}, {2}), {.reduction = Reduction::none}),
                {1000, 0});
}

TEST(GaussianNllLoss, RefusesWhatDoesNotFit) {
  const Tensor x = zeros({3, 4});
  EXPECT_EQ(thrown<ShapeError>([&] { gaussian_nll_loss(x, x, zeros({4})); }),
            "[gaussian_nll_loss] expected a variance of shape [3, 4] or [3, 1], got [4]");
  EXPECT_EQ(thrown<InvalidArgument>([&] { gaussian_nll_loss(x, x, x, {.eps = 0}); }),
            "[gaussian_nll_loss] expected eps > 0, got 0");
}

TEST(Distances, RefuseWhatDoesNotFit) {
  EXPECT_EQ(thrown<ShapeError>([] {
              cdist(zeros({3, 4}), zeros({2, 5}));
            }),
            "[cdist] expected a [..., m, features] and b [..., n, features], got [3, 4] and [2, 5]");
  EXPECT_EQ(thrown<InvalidArgument>([] {
              cdist(zeros({3, 4}), zeros({2, 4}), -1);
            }),
            "[cdist] expected p >= 0, got -1");
  EXPECT_THROW(cosine_similarity(zeros({3, 4}), zeros({3, 4}), 2), ShapeError);
  EXPECT_THROW(normalize(tensor({1, 2})), DTypeError);
}

TEST(Distances, HaveNoSlopeAtZero) {
  const Tensor x = zeros({2, 3}, {.requires_grad = true});
  sum(cdist(x, x.detach())).backward();
  expect_values(x.grad(), {0, 0, 0, 0, 0, 0});
}

TEST(CosineSimilarity, IsZeroBesideAZeroVector) {
  expect_values(cosine_similarity(doubles({0, 0, 3, 4}, {2, 2}), doubles({1, 2, 3, 4}, {2, 2})), {0, 1});
}

}  // namespace
}  // namespace lockstep::margin_loss_tests
