// The models that benchmarks train. The peers (peer/) train the same ones. Each has a name, a net, a batch, a loss and
// an optimizer.
#pragma once

#include <lockstep/lockstep.h>

#include <cstdint>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "models/gpt.h"
#include "models/lenet.h"
#include "models/lstm_classifier.h"
#include "models/resnet.h"

namespace bench {

using lockstep::Tensor;
using Parameters = std::vector<Tensor>;

// A classifier trained by SGD with momentum.
struct Classifier {
  static constexpr std::int64_t kClasses = 10;
  static Tensor loss(const Tensor& scores, const Tensor& target) { return lockstep::nn::cross_entropy(scores, target); }
  static lockstep::optim::SGD optimizer(const Parameters& parameters) {
    return lockstep::optim::SGD(parameters, {.lr = 0.01, .momentum = 0.9});
  }
};

// Linear(5, 2) on a batch of 30: measures the overhead of a call, since there is next to nothing to compute.
struct Seed {
  static constexpr const char* kName = "seed";
  static lockstep::nn::Linear net() { return lockstep::nn::Linear(5, 2); }
  static Tensor input() { return lockstep::randn({30, 5}); }
  static Tensor target() { return lockstep::randn({30, 2}); }
  static Tensor loss(const Tensor& output, const Tensor& target) { return lockstep::nn::mse_loss(output, target); }
  static lockstep::optim::SGD optimizer(const Parameters& parameters) {
    return lockstep::optim::SGD(parameters, {.lr = 0.01});
  }
};

struct Mlp : Classifier {
  static constexpr const char* kName = "mlp";
  static lockstep::nn::Sequential net() {
    using namespace lockstep::nn;
    return Sequential{Linear(784, 512), ReLU(), Linear(512, 256), ReLU(), Linear(256, kClasses)};
  }
  static Tensor input() { return lockstep::randn({256, 784}); }
  static Tensor target() { return lockstep::randint(0, kClasses, {256}); }
};

struct Images : Classifier {
  static Tensor input() { return lockstep::randn({64, 3, 32, 32}); }
  static Tensor target() { return lockstep::randint(0, kClasses, {64}); }
};
struct LeNetOnImages : Images {
  static constexpr const char* kName = "lenet";
  static LeNet net() { return LeNet(3, 32); }
};
struct ResNetOnImages : Images {
  static constexpr const char* kName = "resnet";
  static ResNet18<> net() { return ResNet18<>(); }
};

// A Gpt on random texts, trained by AdamW.
template <std::int64_t vocabulary, std::int64_t texts, std::int64_t length, std::int64_t width, std::int64_t heads,
          int layers, bool tied = false>
struct GptOnTexts {
  static Gpt net() {
    return Gpt(
        {.vocabulary = vocabulary, .length = length, .width = width, .heads = heads, .layers = layers, .tied = tied});
  }
  static Tensor input() { return lockstep::randint(0, vocabulary, {texts, length}); }
  static Tensor target() { return lockstep::randint(0, vocabulary, {texts, length}); }
  static Tensor loss(const Tensor& scores, const Tensor& target) {
    return lockstep::nn::cross_entropy(scores.view({-1, vocabulary}), target.view({-1}));
  }
  static lockstep::optim::AdamW optimizer(const Parameters& parameters) {
    return lockstep::optim::AdamW(parameters, {.lr = 3e-4});
  }
};

// 4 layers of width 256 with 4 heads, 8 texts of 128 tokens, vocabulary 4096.
struct SmallGpt : GptOnTexts<4096, 8, 128, 256, 4, 4> {
  static constexpr const char* kName = "gpt";
};

// GPT-2 (Radford et al. 2019), whose head uses the embedding's weight, with its vocabulary rounded up to a multiple of
// 128; texts of 1024 tokens. Of the published sizes.
template <std::int64_t texts, std::int64_t width, std::int64_t heads, int layers>
using Gpt2Of = GptOnTexts<50304, texts, 1024, width, heads, layers, true>;
// For a GPU.
using Gpt2 = Gpt2Of<8, 768, 12, 12>;
using Gpt2Medium = Gpt2Of<8, 1024, 16, 24>;
using Gpt2Large = Gpt2Of<4, 1280, 20, 36>;
using Gpt2Xl = Gpt2Of<2, 1600, 25, 48>;

// Two layers 128 -> 256, 32 sequences of 64 steps; a classifier reads the last step. Trained by Adam.
struct Lstm : Classifier {
  static constexpr const char* kName = "lstm";
  static LstmClassifier net() { return LstmClassifier(128, 256, kClasses, 2); }
  static Tensor input() { return lockstep::randn({32, 64, 128}); }
  static Tensor target() { return lockstep::randint(0, kClasses, {32}); }
  static lockstep::optim::Adam optimizer(const Parameters& parameters) {
    return lockstep::optim::Adam(parameters, {.lr = 1e-3});
  }
};

/// A model whose forward runs in an autocast region.
template <class Model>
struct InBFloat16 : Model {
  static constexpr lockstep::DType kAutocast = lockstep::kBFloat16;
};
template <class Model>
std::optional<lockstep::DType> autocast_of() {
  if constexpr (requires { Model::kAutocast; }) return Model::kAutocast;
  return std::nullopt;
}

/// Calls visitor(Model()) for each model.
template <class Visitor>
void for_each_model(const Visitor& visitor) {
  std::apply([&](auto... models) { (visitor(models), ...); },
             std::tuple<Seed, Mlp, LeNetOnImages, ResNetOnImages, SmallGpt, Lstm>());
}

struct SmallGptInBFloat16 : InBFloat16<SmallGpt> {
  static constexpr const char* kName = "gpt_bfloat16";
};
/// Calls visitor(Model()) for each model whose launches and bytes are counted: those above, and gpt with autocast.
template <class Visitor>
void for_each_counted_model(const Visitor& visitor) {
  for_each_model(visitor);
  visitor(SmallGptInBFloat16());
}

/// A net that returns the loss: on several devices, each computes the loss of its shard.
template <class Model>
struct WithLoss : lockstep::nn::Module<WithLoss<Model>> {
  decltype(Model::net()) net = Model::net();

  auto members() { return lockstep::nn::members("net", net); }
  Tensor forward(const Tensor& input, const Tensor& target) { return Model::loss(net(input), target); }
};

/// Runs training steps on one batch. `Net` is the model's, or a DataParallel of WithLoss<Model>.
template <class Model, class Net = decltype(Model::net())>
class Training {
 public:
  explicit Training(Net net, lockstep::Device device = lockstep::Device(),
                    std::optional<lockstep::DType> autocast = autocast_of<Model>())
      : net_(std::move(net)),
        input_(Model::input().to(device)),
        target_(Model::target().to(device)),
        optimizer_(Model::optimizer(net_.parameters())),
        autocast_(autocast) {}

  Tensor loss() {
    std::optional<lockstep::Autocast> region;
    if (autocast_) region.emplace(*autocast_);
    if constexpr (std::is_same_v<Net, decltype(Model::net())>)
      return Model::loss(net_(input_), target_);
    else
      return net_(input_, target_);
  }
  void step() {
    step([](const char*) {});
  }
  /// Calls ended(name) after each phase of the step: "forward", "backward", "update".
  template <class Ended>
  void step(const Ended& ended) {
    optimizer_.zero_grad();
    Tensor of_step = loss();
    ended("forward");
    of_step.backward();
    ended("backward");
    optimizer_.step();
    ended("update");
  }

 private:
  Net net_;
  Tensor input_, target_;
  decltype(Model::optimizer({})) optimizer_;
  std::optional<lockstep::DType> autocast_;
};

}  // namespace bench
