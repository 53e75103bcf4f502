// Layers and losses in training with an empty batch, as a replica or a process gets if a batch has too few rows:
// nothing throws, results of [rows, ...] have no rows, gradients of parameters are zero, and no statistics change.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <lockstep/autograd/autograd.h>
#include <lockstep/nn/activations.h>
#include <lockstep/nn/attention.h>
#include <lockstep/nn/batch_norm.h>
#include <lockstep/nn/conv.h>
#include <lockstep/nn/dropout.h>
#include <lockstep/nn/embedding_bag.h>
#include <lockstep/nn/fold.h>
#include <lockstep/nn/gated_activations.h>
#include <lockstep/nn/instance_norm.h>
#include <lockstep/nn/layer_norm.h>
#include <lockstep/nn/layers.h>
#include <lockstep/nn/losses.h>
#include <lockstep/nn/packed_sequence.h>
#include <lockstep/nn/padding.h>
#include <lockstep/nn/pairs.h>
#include <lockstep/nn/pooling.h>
#include <lockstep/nn/recurrent.h>
#include <lockstep/nn/recurrent_cells.h>
#include <lockstep/nn/shuffle.h>
#include <lockstep/nn/transformer.h>
#include <lockstep/nn/upsample.h>
#include <lockstep/nn/weight_norm.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "support/test_devices.h"
#include "support/values.h"

namespace lockstep::no_rows {
namespace {

using testing::values;
using Doubles = std::vector<double>;

const Device kDevice = Device::cuda(0);

struct Layer {
  std::string name;
  std::function<void(std::int64_t rows)> train;
};

Tensor floats(const Shape& sizes) { return rand(sizes, {.device = kDevice, .requires_grad = true}); }
Tensor classes(const Shape& sizes) { return zeros(sizes, {.dtype = kInt64, .device = kDevice}); }

void expect_zero_gradients(nn::ModuleBase& module) {
  for (const Tensor& parameter : module.parameters()) {
    ASSERT_TRUE(parameter.grad().defined());
    EXPECT_EQ(values(parameter.grad()), Doubles(std::size_t(parameter.numel()), 0));
  }
}

// `call` returns a tensor whose dimension `dim` is the batch.
template <class Module, class Call>
Layer layer(const std::string& name, Module module, const Call& call, int dim = 0) {
  const auto shared = std::make_shared<Module>(std::move(module));
  shared->to(kDevice);
  return {name, [=](std::int64_t rows) {
            nn::ModuleBase& all = *shared;
            std::vector<Doubles> before;
            for (const auto& [key, value] : all.state_dict()) before.push_back(values(value));
            all.zero_grad();
            const Tensor y = call(*shared, rows);
            ASSERT_EQ(y.size(dim), rows);
            sum(y).backward();
            if (rows > 0) return;
            expect_zero_gradients(all);
            std::size_t k = 0;
            for (const auto& [key, value] : all.state_dict()) {
              const Doubles& was = before[k++];
              if (key.ends_with("num_batches_tracked") || key.ends_with("_u") || key.ends_with("_v")) continue;
              EXPECT_EQ(values(value), was) << key;
            }
          }};
}

// A layer with one input, [rows, sizes...].
template <class Module>
Layer layer(const std::string& name, Module module, const std::vector<std::int64_t>& sizes) {
  return layer(name, std::move(module), [sizes](Module& m, std::int64_t rows) {
    Shape all = {rows};
    for (const std::int64_t size : sizes) all.push_back(size);
    return m(floats(all));
  });
}

std::vector<Layer> layers() {
  using std::int64_t;
  std::vector<Layer> all;
  const auto add = [&](Layer each) { all.push_back(std::move(each)); };
  add(layer("Linear", nn::Linear(3, 2), {3}));
  add(layer("Linear, 3-dim", nn::Linear(3, 2), {4, 3}));
  add(layer("Bilinear", nn::Bilinear(3, 2, 4), [](nn::Bilinear& m, int64_t n) {
    return m(floats({n, 3}), floats({n, 2}));
  }));
  add(layer("CosineSimilarity", nn::CosineSimilarity(), [](nn::CosineSimilarity& m, int64_t n) {
    return m(floats({n, 3}), floats({n, 3}));
  }));
  add(layer("PairwiseDistance", nn::PairwiseDistance(), [](nn::PairwiseDistance& m, int64_t n) {
    return m(floats({n, 3}), floats({n, 3}));
  }));
  add(layer("Embedding", nn::Embedding(5, 3), [](nn::Embedding& m, int64_t n) { return m(classes({n, 2})); }));
  for (const auto mode : {EmbeddingBagMode::sum, EmbeddingBagMode::mean, EmbeddingBagMode::max})
    add(layer("EmbeddingBag", nn::EmbeddingBag(5, 3, {.mode = mode}), [](nn::EmbeddingBag& m, int64_t n) {
      return m(classes({n, 2}));
    }));
  add(layer("BatchNorm1d", nn::BatchNorm1d(3), {3}));
  add(layer("BatchNorm1d, 3-dim", nn::BatchNorm1d(3), {3, 4}));
  add(layer("BatchNorm2d", nn::BatchNorm2d(3), {3, 4, 4}));
  add(layer("BatchNorm2d, not affine", nn::BatchNorm2d(3, {.affine = false}), {3, 4, 4}));
  add(layer("BatchNorm3d", nn::BatchNorm3d(3), {3, 2, 2, 2}));
  add(layer("InstanceNorm1d", nn::InstanceNorm1d(3), {3, 4}));
  add(layer("InstanceNorm2d", nn::InstanceNorm2d(3, {.affine = true, .track_running_stats = true}), {3, 4, 4}));
  add(layer("LayerNorm", nn::LayerNorm(3), {3}));
  add(layer("LayerNorm, 3-dim", nn::LayerNorm(3), {4, 3}));
  add(layer("RMSNorm", nn::RMSNorm(3), {3}));
  add(layer("GroupNorm", nn::GroupNorm(2, 4), {4, 3}));
  add(layer("LocalResponseNorm", nn::LocalResponseNorm(2), {4, 3, 3}));
  add(layer("Conv1d", nn::Conv1d(2, 3, 2), {2, 4}));
  add(layer("Conv2d", nn::Conv2d(2, 3, 3, {.padding = 1}), {2, 4, 4}));
  add(layer("Conv2d, strided", nn::Conv2d(2, 3, 3, {.stride = 2}), {2, 5, 5}));
  add(layer("Conv2d, groups", nn::Conv2d(4, 4, 3, {.groups = 4}), {4, 5, 5}));
  add(layer("Conv2d, reflecting", nn::Conv2d(2, 3, 3, {.padding = 1, .padding_mode = nn::PaddingMode::reflect}),
            {2, 5, 5}));
  add(layer("Conv3d", nn::Conv3d(2, 3, 2), {2, 3, 3, 3}));
  add(layer("ConvTranspose1d", nn::ConvTranspose1d(2, 3, 2), {2, 4}));
  add(layer("ConvTranspose2d", nn::ConvTranspose2d(2, 3, 2, {.stride = 2}), {2, 4, 4}));
  add(layer("ConvTranspose3d", nn::ConvTranspose3d(2, 3, 2), {2, 3, 3, 3}));
  add(layer("MaxPool1d", nn::MaxPool1d(2), {2, 4}));
  add(layer("MaxPool2d", nn::MaxPool2d(2), {2, 4, 4}));
  add(layer("MaxPool3d", nn::MaxPool3d(2), {2, 4, 4, 4}));
  add(layer("AvgPool1d", nn::AvgPool1d(2), {2, 4}));
  add(layer("AvgPool2d", nn::AvgPool2d(2), {2, 4, 4}));
  add(layer("AvgPool3d", nn::AvgPool3d(2), {2, 4, 4, 4}));
  add(layer("LPPool2d", nn::LPPool2d(2, 2), {2, 4, 4}));
  add(layer("AdaptiveAvgPool1d", nn::AdaptiveAvgPool1d(2), {2, 5}));
  add(layer("AdaptiveAvgPool2d", nn::AdaptiveAvgPool2d(2), {2, 5, 5}));
  add(layer("AdaptiveMaxPool2d", nn::AdaptiveMaxPool2d(2), {2, 5, 5}));
  add(layer("MaxUnpool2d", nn::MaxUnpool2d(2), [](nn::MaxUnpool2d& m, int64_t n) {
    return m(floats({n, 1, 1, 1}), classes({n, 1, 1, 1}));
  }));
  for (const auto mode : {Interpolation::nearest, Interpolation::bilinear, Interpolation::bicubic})
    add(layer("Upsample", nn::Upsample({.scale_factor = 2, .mode = mode}), {2, 3, 3}));
  add(layer("PixelShuffle", nn::PixelShuffle(2), {4, 3, 3}));
  add(layer("PixelUnshuffle", nn::PixelUnshuffle(2), {1, 4, 4}));
  add(layer("ChannelShuffle", nn::ChannelShuffle(2), {4, 3, 3}));
  add(layer("ConstantPad2d", nn::ConstantPad2d(1, 2.), {2, 4, 4}));
  add(layer("ZeroPad1d", nn::ZeroPad1d(1), {2, 4}));
  add(layer("ReflectionPad2d", nn::ReflectionPad2d(1), {2, 4, 4}));
  add(layer("ReplicationPad2d", nn::ReplicationPad2d(1), {2, 4, 4}));
  add(layer("CircularPad2d", nn::CircularPad2d(1), {2, 4, 4}));
  add(layer("Unfold", nn::Unfold(2), {2, 4, 4}));
  add(layer("Fold", nn::Fold({4, 4}, 2), {8, 9}));
  add(layer("Flatten", nn::Flatten(), {2, 3}));
  add(layer("Unflatten", nn::Unflatten(1, {2, -1}), {6}));
  add(layer("Dropout", nn::Dropout(), {3}));
  add(layer("Dropout2d", nn::Dropout2d(), {3, 2, 2}));
  add(layer("AlphaDropout", nn::AlphaDropout(), {3}));
  add(layer("PReLU", nn::PReLU(), {3}));
  add(layer("PReLU, by channel", nn::PReLU(3), {3, 2}));
  add(layer("RReLU", nn::RReLU(), {3}));
  add(layer("GLU", nn::GLU(), {4}));
  add(layer("GELU", nn::GELU(), {4}));
  add(layer("ReLU", nn::ReLU(), {4}));
  add(layer("Softplus", nn::Softplus(), {4}));
  add(layer("Hardswish", nn::Hardswish(), {4}));
  add(layer("Softmax", nn::Softmax(1), {4}));
  add(layer("LogSoftmax", nn::LogSoftmax(-1), {4}));
  add(layer("Softmax2d", nn::Softmax2d(), {4, 2, 2}));
  add(layer("WeightNorm", nn::weight_norm(nn::Linear(3, 2)), {3}));
  add(layer("SpectralNorm", nn::spectral_norm(nn::Linear(3, 2)), {3}));
  for (const bool first : {false, true}) {
    const int dim = first ? 0 : 1;
    const auto sizes = [first](int64_t n, int64_t features) {
      return first ? Shape{n, 5, features} : Shape{5, n, features};
    };
    add(layer(
        "RNN", nn::RNN(3, 4, {.num_layers = 2, .batch_first = first, .dropout = 0.5}),
        [=](nn::RNN& m, int64_t n) { return m(floats(sizes(n, 3))).output; }, dim));
    add(layer(
        "GRU", nn::GRU(3, 4, {.batch_first = first, .bidirectional = true}),
        [=](nn::GRU& m, int64_t n) { return m(floats(sizes(n, 3))).output; }, dim));
    add(layer(
        "LSTM", nn::LSTM(3, 4, {.num_layers = 2, .batch_first = first, .dropout = 0.5}),
        [=](nn::LSTM& m, int64_t n) { return m(floats(sizes(n, 3))).output; }, dim));
    add(layer(
        "MultiheadAttention", nn::MultiheadAttention(4, 2, {.dropout = 0.5, .batch_first = first}),
        [=](nn::MultiheadAttention& m, int64_t n) {
          const Tensor x = floats(sizes(n, 4));
          return m(x, x, x).output;
        },
        dim));
    add(layer(
        "MultiheadAttention, without weights", nn::MultiheadAttention(4, 2, {.batch_first = first}),
        [=](nn::MultiheadAttention& m, int64_t n) {
          const Tensor x = floats(sizes(n, 4));
          return m(x, x, x, nn::AttentionCall{.need_weights = false}).output;
        },
        dim));
    add(layer(
        "LSTM, packed", nn::LSTM(3, 4, {.batch_first = first, .bidirectional = true}),
        [=](nn::LSTM& m, int64_t n) {
          const std::vector<int64_t> lengths(std::size_t(n), 3);
          const auto packed = nn::pack_padded_sequence(floats(sizes(n, 3)), lengths, {.batch_first = first});
          return nn::pad_packed_sequence(m(packed).output, {.batch_first = first}).output;
        },
        dim));
    const nn::TransformerLayerOptions options = {.dim_feedforward = 8, .batch_first = first};
    add(layer(
        "TransformerEncoderLayer", nn::TransformerEncoderLayer(4, 2, options),
        [=](nn::TransformerEncoderLayer& m, int64_t n) { return m(floats(sizes(n, 4))); }, dim));
    add(layer(
        "TransformerDecoderLayer", nn::TransformerDecoderLayer(4, 2, options),
        [=](nn::TransformerDecoderLayer& m, int64_t n) { return m(floats(sizes(n, 4)), floats(sizes(n, 4))); }, dim));
  }
  add(layer(
      "Transformer",
      nn::Transformer(4, 2, {.num_encoder_layers = 1, .num_decoder_layers = 1, .dim_feedforward = 8}),
      [](nn::Transformer& m, int64_t n) {
        return m(floats({5, n, 4}), floats({3, n, 4}));
      },
      1));
  add(layer("RNNCell", nn::RNNCell(3, 4), {3}));
  add(layer("GRUCell", nn::GRUCell(3, 4), {3}));
  add(layer("LSTMCell", nn::LSTMCell(3, 4), [](nn::LSTMCell& m, int64_t n) { return m(floats({n, 3})).h; }));
  return all;
}

TEST(NoRows, GoThroughEveryLayerInTraining) {
  const TestDevices devices(1);
  for (const Layer& each : layers()) {
    SCOPED_TRACE(each.name);
    for (const std::int64_t rows : {2, 0, 2}) {
      SCOPED_TRACE(rows);
      EXPECT_NO_THROW(each.train(rows));
    }
  }
}

// As in PyTorch, the mean of no elements is NaN and the sum is 0. Neither changes the inputs.
struct Loss {
  std::string name;
  std::function<Tensor(std::int64_t rows, Reduction reduction)> of;
};

std::vector<Loss> losses() {
  using std::int64_t;
  const auto pair = [](const std::string& name, auto function) {
    return Loss{name, [=](int64_t n, Reduction how) {
                  return function(floats({n, 3}), rand({n, 3}, {.device = kDevice}), how);
                }};
  };
  std::vector<Loss> all = {
      pair("mse", [](const Tensor& x, const Tensor& t, Reduction how) { return mse_loss(x, t, {how}); }),
      pair("l1", [](const Tensor& x, const Tensor& t, Reduction how) { return l1_loss(x, t, {how}); }),
      pair("smooth_l1", [](const Tensor& x, const Tensor& t, Reduction how) { return smooth_l1_loss(x, t, {how}); }),
      pair("huber", [](const Tensor& x, const Tensor& t, Reduction how) { return huber_loss(x, t, {how}); }),
      pair("bce", [](const Tensor& x, const Tensor& t, Reduction how) { return binary_cross_entropy(x, t, {.reduction = how}); }),
      pair("bce_with_logits", [](const Tensor& x, const Tensor& t,
                                 Reduction how) { return binary_cross_entropy_with_logits(x, t, {.reduction = how}); }),
      pair("kl_div", [](const Tensor& x, const Tensor& t, Reduction how) { return kl_div(x, t, {how}); }),
      pair("poisson",
           [](const Tensor& x, const Tensor& t, Reduction how) { return poisson_nll_loss(x, t, {.reduction = how}); }),
      pair("gaussian", [](const Tensor& x, const Tensor& t,
                          Reduction how) { return gaussian_nll_loss(x, t, t + 1, {.reduction = how}); }),
      pair("soft_margin",
           [](const Tensor& x, const Tensor& t, Reduction how) { return soft_margin_loss(x, t, {how}); }),
      pair("hinge", [](const Tensor& x, const Tensor& t,
                       Reduction how) { return hinge_embedding_loss(x, t, {.reduction = how}); }),
      pair("margin_ranking", [](const Tensor& x, const Tensor& t,
                                Reduction how) { return margin_ranking_loss(x, t, t, {.reduction = how}); }),
      pair("triplet", [](const Tensor& x, const Tensor& t,
                         Reduction how) { return triplet_margin_loss(x, t, t + 1, {.reduction = how}); }),
      pair("multilabel_soft_margin",
           [](const Tensor& x, const Tensor& t, Reduction how) {
             return multilabel_soft_margin_loss(x, t, {.reduction = how});
           }),
      {"cosine",
       [](int64_t n, Reduction how) {
         return cosine_embedding_loss(floats({n, 3}), floats({n, 3}), ones({n}, {.device = kDevice}),
                                      {.reduction = how});
       }},
      {"cross_entropy",
       [](int64_t n, Reduction how) {
         return cross_entropy(floats({n, 3}), classes({n}), {.reduction = how});
       }},
      {"cross_entropy of probabilities",
       [](int64_t n, Reduction how) {
         return cross_entropy(floats({n, 3}), floats({n, 3}), {.reduction = how, .label_smoothing = 0.1});
       }},
      {"cross_entropy of images",
       [](int64_t n, Reduction how) {
         return cross_entropy(floats({n, 3, 2, 2}), classes({n, 2, 2}),
                              {.weight = ones({3}, {.device = kDevice}), .reduction = how, .label_smoothing = 0.1});
       }},
      {"nll",
       [](int64_t n, Reduction how) {
         return nll_loss(floats({n, 3}), classes({n}), {.reduction = how});
       }},
      {"multi_margin",
       [](int64_t n, Reduction how) {
         return multi_margin_loss(floats({n, 3}), classes({n}), {.reduction = how});
       }},
      {"multilabel_margin",
       [](int64_t n, Reduction how) {
         return multilabel_margin_loss(floats({n, 3}), classes({n, 3}), {how});
       }},
      {"ctc",
       [](int64_t n, Reduction how) {
         const auto of = [&](double value) { return full({n}, value, {.dtype = kInt64, .device = kDevice}); };
         return ctc_loss(log_softmax(floats({5, n, 3}), 2), full({n, 2}, 1, {.dtype = kInt64, .device = kDevice}),
                         of(5), of(1), {.reduction = how});
       }},
  };
  return all;
}

TEST(NoRows, GoThroughEveryLoss) {
  const TestDevices devices(1);
  for (const Loss& loss : losses()) {
    SCOPED_TRACE(loss.name);
    for (const std::int64_t rows : {2, 0, 2}) {
      SCOPED_TRACE(rows);
      const auto train = [&] {
        const Tensor sums = loss.of(rows, Reduction::sum), means = loss.of(rows, Reduction::mean);
        const Tensor each = loss.of(rows, Reduction::none);
        if (rows == 0) {
          EXPECT_EQ(values(sums), Doubles{0});
          EXPECT_TRUE(std::isnan(values(means)[0]));
          EXPECT_EQ(each.size(0), 0);
        }
        (sums + means + sum(each)).backward();
      };
      EXPECT_NO_THROW(train());
    }
  }
}

}  // namespace
}  // namespace lockstep::no_rows
