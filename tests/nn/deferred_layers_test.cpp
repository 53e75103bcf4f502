// Layers that are made under DeferredInit take no memory, and have the values that they would have had at once.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <lockstep/nn/attention.h>
#include <lockstep/nn/batch_norm.h>
#include <lockstep/nn/conv.h>
#include <lockstep/nn/embedding_bag.h>
#include <lockstep/nn/init.h>
#include <lockstep/nn/layer_norm.h>
#include <lockstep/nn/layers.h>
#include <lockstep/nn/recurrent.h>
#include <lockstep/nn/transformer.h>
#include <lockstep/runtime/memory.h>
#include <lockstep/tensor/deferred_init.h>

namespace lockstep::nn {
namespace {

using Make = std::function<StateDict()>;

template <class Module, class... Args>
Make make(const Args&... args) {
  return [=] { return Module(args...).state_dict(); };
}

TEST(DeferredLayers, TakeNoMemoryAndHaveTheSameValues) {
  constexpr std::int64_t kWidth = 256;
  const std::vector<Make> makes = {
      make<Linear>(kWidth, kWidth),
      make<Conv2d>(kWidth, kWidth, 3),
      make<ConvTranspose2d>(kWidth, kWidth, 3),
      make<Embedding>(kWidth, kWidth),
      make<Embedding>(kWidth, kWidth, EmbeddingOptions{.padding_idx = 3}),
      make<EmbeddingBag>(kWidth, kWidth),
      make<LayerNorm>(Shape{kWidth, kWidth}),
      make<BatchNorm2d>(kWidth * kWidth),
      make<LSTM>(kWidth, kWidth),
      make<GRU>(kWidth, kWidth),
      make<MultiheadAttention>(kWidth, std::int64_t(4)),
      make<TransformerEncoderLayer>(kWidth, std::int64_t(4)),
      make<Transformer>(kWidth, std::int64_t(4)),
      [] {
        Linear linear(kWidth, kWidth);
        init::kaiming_normal_(linear.weight);
        init::constant_(linear.bias.value(), 0.5);
        return linear.state_dict();
      },
  };
  for (std::size_t i = 0; i < makes.size(); ++i) {
    manual_seed(1);
    const StateDict expected = makes[i]();
    manual_seed(1);
    const std::size_t before = memory_stats(Device()).in_use;
    const StateDict deferred = [&] {
      const DeferredInit guard;
      return makes[i]();
    }();
    std::size_t bytes = 0;
    for (const auto& [key, value] : expected) bytes += std::size_t(value.numel()) * size_of(value.dtype());
    EXPECT_LT(memory_stats(Device()).in_use - before, bytes / 10) << i;
    ASSERT_EQ(deferred.size(), expected.size()) << i;
    for (const auto& [key, value] : expected)
      EXPECT_EQ(deferred.find(key)->to(kFloat64).to_vector<double>(), value.to(kFloat64).to_vector<double>())
          << i << ' ' << key;
  }
}

}  // namespace
}  // namespace lockstep::nn
