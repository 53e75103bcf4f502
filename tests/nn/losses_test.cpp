// Loss layers compute their functions with their options, and hold their weights; also RMSNorm.
#include <lockstep/nn/losses.h>

#include <gtest/gtest.h>

#include <lockstep/nn/layer_norm.h>
#include <lockstep/ops/normalization.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "support/thrown.h"
#include "support/values.h"

namespace lockstep::loss_layers {
namespace {

using testing::thrown;
using testing::values;

TEST(LossLayers, ComputeTheirFunctions) {
  const Tensor x = randn({4, 3}), y = rand({4, 3}), v = rand({4, 3}), signs = tensor({1., -1., 1., -1.});
  const Tensor classes = tensor({0, 2, 1, 1});
  const auto same = [](const Tensor& got, const Tensor& expected) { EXPECT_EQ(values(got), values(expected)); };
  same(nn::MSELoss()(x, y), mse_loss(x, y));
  same(nn::MSELoss({.reduction = Reduction::sum})(x, y), mse_loss(x, y, {.reduction = Reduction::sum}));
  same(nn::L1Loss()(x, y), l1_loss(x, y));
  same(nn::SmoothL1Loss({.beta = 0.3})(x, y), smooth_l1_loss(x, y, {.beta = 0.3}));
  same(nn::HuberLoss({.delta = 0.3})(x, y), huber_loss(x, y, {.delta = 0.3}));
  same(nn::KLDivLoss({.log_target = true})(x, y), kl_div(x, y, {.log_target = true}));
  same(nn::PoissonNLLLoss({.full = true})(x, y), poisson_nll_loss(x, y, {.full = true}));
  same(nn::GaussianNLLLoss()(x, y, v), gaussian_nll_loss(x, y, v));
  same(nn::SoftMarginLoss()(x, y), soft_margin_loss(x, y));
  same(nn::HingeEmbeddingLoss()(x, y), hinge_embedding_loss(x, y));
  same(nn::MarginRankingLoss({.margin = 0.5})(x, v, y), margin_ranking_loss(x, v, y, {.margin = 0.5}));
  same(nn::CosineEmbeddingLoss()(x, y, signs), cosine_embedding_loss(x, y, signs));
  same(nn::TripletMarginLoss({.swap = true})(x, y, v), triplet_margin_loss(x, y, v, {.swap = true}));
  same(nn::MultiLabelMarginLoss()(x, classes.view({4, 1}).expand({4, 3})),
       multilabel_margin_loss(x, classes.view({4, 1}).expand({4, 3})));
  same(nn::CrossEntropyLoss({.label_smoothing = 0.1})(x, classes), cross_entropy(x, classes, {.label_smoothing = 0.1}));
  same(nn::NLLLoss()(x, classes), nll_loss(x, classes));
  same(nn::MultiMarginLoss({.p = 2})(x, classes), multi_margin_loss(x, classes, {.p = 2}));
  same(nn::MultiLabelSoftMarginLoss()(x, y), multilabel_soft_margin_loss(x, y));
  same(nn::BCELoss()(v, y), binary_cross_entropy(v, y));
  same(nn::BCEWithLogitsLoss()(x, y), binary_cross_entropy_with_logits(x, y));
}

TEST(LossLayers, HoldTheirWeightsAsBuffers) {
  const Tensor x = randn({4, 3}), y = rand({4, 3}), weight = tensor({1., 2., 3.}), classes = tensor({0, 2, 1, 1});
  nn::CrossEntropyLoss loss({.weight = weight, .reduction = Reduction::sum});
  EXPECT_EQ(values(loss(x, classes)),
            values(cross_entropy(x, classes, {.weight = weight, .reduction = Reduction::sum})));
  EXPECT_EQ(values(loss.state_dict().at("weight")), values(weight));
  EXPECT_TRUE(loss.parameters().empty());
  loss.to(kFloat64);
  EXPECT_EQ(loss(x.to(kFloat64), classes).dtype(), kFloat64);
  nn::BCEWithLogitsLoss logits({.pos_weight = weight});
  EXPECT_EQ(values(logits(x, y)), values(binary_cross_entropy_with_logits(x, y, {.pos_weight = weight})));
  EXPECT_EQ(values(logits.state_dict().at("pos_weight")), values(weight));
}

TEST(RMSNormLayer, ScalesEachSample) {
  nn::RMSNorm layer({4});
  const Tensor x = randn({3, 4});
  EXPECT_EQ(values(layer(x)), values(rms_norm(x, {4})));
  EXPECT_EQ(layer.state_dict().at("weight").sizes(), (Shape{4}));
  EXPECT_TRUE(nn::RMSNorm({4}, {.affine = false}).state_dict().empty());
  EXPECT_EQ(thrown<ShapeError>([] { nn::RMSNorm none(Shape{}); }), "[RMSNorm] expected at least one dimension, got []");
}

}  // namespace
}  // namespace lockstep::loss_layers
