// EmbeddingBag, Bilinear, similarity layers, and dropout of channels.
#include <gtest/gtest.h>

#include <lockstep/nn/dropout.h>
#include <lockstep/nn/embedding_bag.h>
#include <lockstep/nn/pairs.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "support/thrown.h"
#include "support/values.h"

namespace lockstep::more_layers {
namespace {

using testing::thrown;
using testing::values;

TEST(EmbeddingBagLayer, JoinsRows) {
  nn::EmbeddingBag layer(5, 3, {.mode = EmbeddingBagMode::sum, .padding_idx = 1});
  const Tensor index = tensor({4, 1, 0}), offsets = tensor({0, 2}), scale = tensor({1., 2., 3.});
  EXPECT_EQ(values(layer.weight[1]), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(values(layer(index, offsets, scale)),
            values(embedding_bag(layer.weight, index,
                                 {.mode = EmbeddingBagMode::sum, .offsets = offsets, .per_sample_weights = scale})));
  EXPECT_EQ(thrown<InvalidArgument>([] { nn::EmbeddingBag(5, 3, {.padding_idx = 5}); }),
            "[EmbeddingBag] expected a padding index in [-5, 5), got 5");
}

TEST(BilinearLayer, HasPyTorchsShapes) {
  nn::Bilinear layer(3, 4, 2);
  EXPECT_EQ(layer.weight.sizes(), (Shape{2, 3, 4}));
  EXPECT_EQ(layer.bias->sizes(), (Shape{2}));
  const Tensor a = randn({5, 3}), b = randn({5, 4});
  EXPECT_EQ(values(layer(a, b)), values(bilinear(a, b, layer.weight, *layer.bias)));
  EXPECT_EQ(thrown<InvalidArgument>([] { nn::Bilinear(0, 4, 2); }),
            "[Bilinear] expected sizes of at least 1, got 0, 4 and 2");
}

TEST(SimilarityLayers, ComputeTheirFunctions) {
  const Tensor a = randn({5, 3}), b = randn({5, 3});
  EXPECT_EQ(values(nn::CosineSimilarity()(a, b)), values(cosine_similarity(a, b)));
  EXPECT_EQ(values(nn::PairwiseDistance({.p = 1})(a, b)), values(pairwise_distance(a, b, {.p = 1})));
}

TEST(DropoutLayers, DropInTrainingAlone) {
  const Tensor x = randn({4, 3, 2, 2});
  nn::Dropout2d layer(0.5);
  const auto drawn = [&](auto&& f) {
    manual_seed(5);
    return values(f());
  };
  EXPECT_EQ(drawn([&] { return layer(x); }), drawn([&] { return channel_dropout(x, 0.5); }));
  EXPECT_EQ(drawn([&] { return nn::AlphaDropout(0.3)(x); }), drawn([&] { return alpha_dropout(x, 0.3); }));
  EXPECT_EQ(drawn([&] { return nn::FeatureAlphaDropout(0.3)(x); }),
            drawn([&] { return feature_alpha_dropout(x, 0.3); }));
  EXPECT_EQ(nn::Dropout1d()(zeros({3, 2})).sizes(), (Shape{3, 2}));
  EXPECT_EQ(nn::Dropout3d()(zeros({1, 3, 2, 2, 2})).sizes(), (Shape{1, 3, 2, 2, 2}));
  layer.eval();
  EXPECT_TRUE(layer(x).is_same(x));
  EXPECT_EQ(thrown<ShapeError>([&] {
              layer(zeros({3, 2}));
            }),
            "[Dropout2d] expected x of 4 dimensions, or 3 for one sample, got [3, 2]");
  EXPECT_EQ(thrown<InvalidArgument>([] { nn::Dropout1d(2); }), "[Dropout1d] expected a probability from 0 to 1, got 2");
}

}  // namespace
}  // namespace lockstep::more_layers
