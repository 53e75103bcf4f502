// Dropout drops the same elements on any number of devices, whichever dimension of a layer's tensors is the batch.
#include <gtest/gtest.h>

#include <functional>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/nn/attention.h>
#include <lockstep/nn/dropout.h>
#include <lockstep/nn/packed_sequence.h>
#include <lockstep/nn/recurrent.h>
#include <lockstep/nn/transformer.h>
#include <lockstep/ops/attention.h>
#include <lockstep/tensor/batch_shard.h>

#include "parallel/expect_close.h"
#include "parallel/mlp_job.h"

namespace lockstep::dropout_invariance {
namespace {

using testing::floats;

constexpr std::int64_t kSteps = 4, kFeatures = 6, kHeads = 3;

/// A layer, and how the model calls it.
template <class Layer>
struct Called : nn::Module<Called<Layer>> {
  using Call = std::function<Tensor(Layer&, const Tensor&)>;
  Layer layer;
  Call call;
  Called(Layer&& l, Call c) : layer(std::move(l)), call(std::move(c)) {}
  auto members() { return nn::members("layer", layer); }
  Tensor forward(const Tensor& x) { return call(layer, x); }
};

// Divides `x` along `dim`; the output's batch is along `dim` too.
template <class Layer, class Call>
void expect_the_same_for_any_number_of_devices(Layer layer, const Call& call, const Tensor& x, std::int64_t dim) {
  const Called<Layer> model(std::move(layer), call);
  std::vector<float> expected;
  for (const int count : {1, 2, 3, 5}) {
    const SimulatedDevices devices({.count = count});
    DataParallel on_devices(copy(model), {.scatter = {.dim = dim}});
    const NoGrad guard;
    manual_seed(5);
    const std::vector<float> got = floats(on_devices(x));
    if (count == 1) expected = got;
    ASSERT_EQ(got.size(), expected.size());
    double most = 0;
    for (std::size_t i = 0; i < got.size(); ++i) most = std::max(most, double(std::abs(got[i] - expected[i])));
    EXPECT_LT(most, 1e-4) << count << " devices, x " << x.sizes();
  }
}

Tensor swapped(const Tensor& x) { return x.transpose(0, 1); }

// With 5 rows on 5 devices, each device has one.
const std::vector<std::int64_t> kRows = {5, 7, 12};

Tensor rows_first(std::int64_t rows) { return randn({rows, kSteps, kFeatures}); }
Tensor steps_first(std::int64_t rows) { return randn({kSteps, rows, kFeatures}); }

template <class Layer>
Tensor output_of(Layer& layer, const Tensor& x) {
  return layer(x).output;
}

template <class Layer, class Options>
void try_recurrent(Options options) {
  options.num_layers = 3;
  options.dropout = 0.5;
  for (const std::int64_t rows : kRows)
    for (const bool batch_first : {false, true}) {
      options.batch_first = batch_first;
      const auto make = [&] { return Layer(kFeatures, 8, options); };
      const auto as_it_comes = [](Layer& layer, const Tensor& x) { return output_of(layer, x); };
      const auto turned = [](Layer& layer, const Tensor& x) { return swapped(output_of(layer, swapped(x))); };
      SCOPED_TRACE(batch_first ? "batch first" : "steps first");
      if (batch_first) {
        expect_the_same_for_any_number_of_devices(make(), as_it_comes, rows_first(rows), 0);
        expect_the_same_for_any_number_of_devices(make(), turned, steps_first(rows), 1);
      } else {
        expect_the_same_for_any_number_of_devices(make(), turned, rows_first(rows), 0);
        expect_the_same_for_any_number_of_devices(make(), as_it_comes, steps_first(rows), 1);
      }
    }
}

TEST(DropoutInvariance, OfRecurrentLayers) {
  try_recurrent<nn::LSTM>(nn::LSTMOptions{});
  try_recurrent<nn::LSTM>(nn::LSTMOptions{.bidirectional = true});
  try_recurrent<nn::GRU>(nn::GRUOptions{});
  try_recurrent<nn::RNN>(nn::RNNOptions{});
}

// The last feature of each row holds its length.
TEST(DropoutInvariance, OfPackedSequences) {
  for (const std::int64_t rows : kRows) {
    Tensor x = rows_first(rows);
    for (std::int64_t i = 0; i < rows; ++i) x.select(0, i).select(1, kFeatures - 1).fill_(double(1 + (3 * i) % kSteps));
    const auto call = [](nn::LSTM& layer, const Tensor& given) {
      std::vector<std::int64_t> lengths;
      for (const float length : floats(given.select(1, 0).select(1, kFeatures - 1)))
        lengths.push_back(std::int64_t(length));
      const nn::PackedSequence packed =
          nn::pack_padded_sequence(given, lengths, {.batch_first = true, .enforce_sorted = false});
      return nn::pad_packed_sequence(layer(packed).output, {.batch_first = true, .total_length = kSteps}).output;
    };
    expect_the_same_for_any_number_of_devices(
        nn::LSTM(kFeatures, 8, {.num_layers = 2, .dropout = 0.5, .bidirectional = true}), call, x, 0);
  }
}

TEST(DropoutInvariance, OfSequencesOfOneLengthIsThatOfPackedOnes) {
  nn::LSTM layer(kFeatures, 8, {.num_layers = 2, .batch_first = true, .dropout = 0.5});
  const Tensor x = rows_first(5);
  manual_seed(1);
  const Tensor padded = layer(x).output;
  manual_seed(1);
  const nn::PackedSequence packed =
      nn::pack_padded_sequence(x, std::vector<std::int64_t>(5, kSteps), {.batch_first = true, .enforce_sorted = false});
  EXPECT_EQ(floats(nn::pad_packed_sequence(layer(packed).output, {.batch_first = true}).output), floats(padded));
}

TEST(DropoutInvariance, OfTransformerLayers) {
  for (const std::int64_t rows : kRows)
    for (const bool batch_first : {false, true})
      for (const bool norm_first : {false, true}) {
        const nn::TransformerLayerOptions options = {
            .dim_feedforward = 8, .dropout = 0.4, .batch_first = batch_first, .norm_first = norm_first};
        SCOPED_TRACE(batch_first ? "batch first" : "steps first");
        const auto encode = [&](std::int64_t dim) {
          return [turn = (dim == 0) != batch_first](nn::TransformerEncoderLayer& layer, const Tensor& x) {
            return turn ? swapped(layer(swapped(x))) : layer(x);
          };
        };
        const auto decode = [&](std::int64_t dim) {
          return [turn = (dim == 0) != batch_first](nn::TransformerDecoderLayer& layer, const Tensor& x) {
            const Tensor given = turn ? swapped(x) : x, out = layer(given, given * 0.5);
            return turn ? swapped(out) : out;
          };
        };
        for (const std::int64_t dim : {0, 1}) {
          const Tensor x = dim == 0 ? rows_first(rows) : steps_first(rows);
          expect_the_same_for_any_number_of_devices(nn::TransformerEncoderLayer(kFeatures, kHeads, options),
                                                    encode(dim), x, dim);
          expect_the_same_for_any_number_of_devices(nn::TransformerDecoderLayer(kFeatures, kHeads, options),
                                                    decode(dim), x, dim);
        }
      }
}

TEST(DropoutInvariance, OfAttention) {
  for (const std::int64_t rows : kRows)
    for (const bool need_weights : {false, true})
      for (const std::int64_t dim : {0, 1}) {
        const auto call = [=](nn::MultiheadAttention& layer, const Tensor& x) {
          return layer.forward(x, x, x, {.need_weights = need_weights}).output;
        };
        SCOPED_TRACE(need_weights ? "with weights" : "without weights");
        expect_the_same_for_any_number_of_devices(
            nn::MultiheadAttention(30, 15, {.dropout = 0.4, .batch_first = dim == 0}), call,
            dim == 0 ? randn({rows, kSteps, 30}) : randn({kSteps, rows, 30}), dim);
      }
}

// Inputs without a batch, which are equal in all replicas.
TEST(DropoutInvariance, OfLearnedQueriesWithoutABatch) {
  const Tensor queries = randn({3, kFeatures});
  const auto attended = [=](nn::TransformerEncoderLayer& layer, const Tensor& x) {
    return x + layer(queries.to(x.device())).unsqueeze(0).mean({1}, true);
  };
  const auto run = [=](nn::GRU& layer, const Tensor& x) {
    return x + layer(queries.to(x.device())).output.unsqueeze(0).mean({1}, true);
  };
  for (const std::int64_t rows : kRows) {
    expect_the_same_for_any_number_of_devices(
        nn::TransformerEncoderLayer(kFeatures, kHeads, {.dim_feedforward = 8, .dropout = 0.4}), attended,
        rows_first(rows), 0);
    expect_the_same_for_any_number_of_devices(nn::GRU(kFeatures, kFeatures, {.num_layers = 2, .dropout = 0.5}), run,
                                              rows_first(rows), 0);
  }
}

TEST(DropoutInvariance, OfTheOperationOfAttentionWithTheBatchBehindAnotherDimension) {
  const auto call = [](nn::Identity&, const Tensor& x) {
    return scaled_dot_product_attention(x, x, x, {.dropout = 0.5});
  };
  for (const std::int64_t rows : kRows) {
    expect_the_same_for_any_number_of_devices(nn::Identity(), call, randn({2, rows, kHeads, kSteps, 5}), 1);
    expect_the_same_for_any_number_of_devices(nn::Identity(), call, randn({rows, 2, kHeads, kSteps, 5}), 0);
  }
}

TEST(DropoutInvariance, OfChannels) {
  const auto turned = [](auto& layer, const Tensor& x) { return swapped(layer(swapped(x))); };
  const auto as_it_comes = [](auto& layer, const Tensor& x) { return layer(x); };
  for (const std::int64_t rows : kRows) {
    expect_the_same_for_any_number_of_devices(nn::Dropout2d(0.5), turned, randn({30, rows, 2, 2}), 1);
    expect_the_same_for_any_number_of_devices(nn::FeatureAlphaDropout(0.5), turned, randn({30, rows, 3}), 1);
    expect_the_same_for_any_number_of_devices(nn::Dropout1d(0.5), as_it_comes, randn({rows, 3}), 0);  // one sample
  }
}

TEST(DropoutInvariance, OfAUsersLayerThatSaysWhereItsBatchIs) {
  const auto call = [](nn::Dropout& layer, const Tensor& x) {
    const BatchDim second(1);
    return swapped(layer(swapped(x)));
  };
  for (const std::int64_t rows : kRows)
    expect_the_same_for_any_number_of_devices(nn::Dropout(0.5), call, randn({rows, 30}), 0);
}

}  // namespace
}  // namespace lockstep::dropout_invariance
