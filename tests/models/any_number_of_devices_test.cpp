// Trains the models of the examples on 1, 2, 3 and 5 devices: the results are those of one device with the whole batch.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <lockstep/lockstep.h>

#include "models/capsules.h"
#include "models/gan.h"
#include "models/gpt.h"
#include "models/lenet.h"
#include "models/lstm_classifier.h"
#include "models/policy.h"
#include "models/resnet.h"
#include "models/vae.h"
#include "parallel/expect_close.h"
#include "support/replicas.h"
#include "support/test_devices.h"

namespace lockstep::models {
namespace {

constexpr std::int64_t kRows = 7;
constexpr int kSteps = 4;
const TensorOptions kDoubles = {.dtype = kFloat64};

std::vector<double> values(const Tensor& tensor) { return tensor.detach().to(kFloat64).to_vector<double>(); }

// The losses, and the tensors of the state dict.
struct Trained {
  std::vector<double> losses;
  std::vector<std::vector<double>> state;
};

// `loss_of(model, device)` draws a batch and returns its loss. Every run gets the same batches.
template <class Model, class Loss>
Trained train(Model& model, Device device, const Loss& loss_of) {
  manual_seed(11);
  Trained trained;
  optim::SGD optimizer(model.parameters(), {.lr = 0.02, .momentum = 0.9});
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    const Tensor loss = loss_of(model, device);
    loss.backward();
    optimizer.step();
    trained.losses.push_back(loss.template item<double>());
  }
  for (const auto& [name, tensor] : model.state_dict()) trained.state.push_back(values(tensor));
  return trained;
}

template <class Model, class Loss>
void expect_same_on_any_number(Model start, const Loss& loss_of) {
  start.to(kFloat64);
  Model alone = copy(start);
  const Trained expected = train(alone, "cpu", loss_of);
  const auto names = alone.state_dict();
  for (const int count : {1, 2, 3, 5}) {
    SCOPED_TRACE(std::to_string(count) + " devices");
    const TestDevices devices(count);
    DataParallel model(copy(start), {.buckets = {.first_bytes = 512, .bytes = 4096}});
    ASSERT_EQ(model.devices().size(), std::size_t(count));
    const Trained got = train(model, model.device(), loss_of);
    testing::expect_close(got.losses, expected.losses, 1e-10, "losses");
    ASSERT_EQ(got.state.size(), expected.state.size());
    std::size_t i = 0;
    for (const auto& [name, tensor] : names) {
      testing::expect_close(got.state[i], expected.state[i], 1e-9, std::string(name));
      ++i;
    }
    for (const auto& [name, parameter] : model.named_parameters())
      for (const Tensor& replica : testing::other_replicas(parameter))
        ASSERT_EQ(values(replica), values(parameter)) << name;
  }
}

Tensor classes(std::int64_t count, const Shape& sizes, Device device) { return randint(0, count, sizes).to(device); }

TEST(AnyNumberOfDevices, LeNet) {
  manual_seed(1);
  expect_same_on_any_number(LeNet(1, 16, 4), [](auto& model, Device device) {
    const Tensor images = randn({kRows, 1, 16, 16}, kDoubles).to(device);
    return nn::cross_entropy(model(images), classes(4, {kRows}, device));
  });
}

// SyncBatchNorm uses the statistics of all devices. Without it each device normalizes by its own shard, as in PyTorch.
TEST(AnyNumberOfDevices, ResNet18) {
  manual_seed(1);
  expect_same_on_any_number(ResNet18<nn::SyncBatchNorm>(4, 2), [](auto& model, Device device) {
    const Tensor images = randn({kRows, 3, 8, 8}, kDoubles).to(device);
    return nn::cross_entropy(model(images), classes(4, {kRows}, device));
  });
}

TEST(AnyNumberOfDevices, LstmClassifier) {
  manual_seed(1);
  expect_same_on_any_number(LstmClassifier(3, 6, 4, 2), [](auto& model, Device device) {
    const Tensor x = randn({kRows, 5, 3}, kDoubles).to(device);
    return nn::cross_entropy(model(x), classes(4, {kRows}, device));
  });
}

TEST(AnyNumberOfDevices, Gpt) {
  for (const bool checkpoint : {false, true}) {
    manual_seed(1);
    const Gpt gpt({.vocabulary = 11, .length = 6, .width = 8, .heads = 2, .layers = 2, .checkpoint = checkpoint});
    expect_same_on_any_number(gpt, [](auto& model, Device device) {
      const Tensor tokens = classes(11, {kRows, 6}, device);
      return nn::cross_entropy(model(tokens).view({-1, 11}), classes(11, {kRows * 6}, device));
    });
  }
}

TEST(AnyNumberOfDevices, CapsuleNet) {
  manual_seed(1);
  expect_same_on_any_number(CapsuleNet(20, 4, 2, 3), [](auto& model, Device device) {
    const Tensor images = rand({kRows, 1, 20, 20}, kDoubles).to(device);
    return capsule_loss(model(images), classes(3, {kRows}, device));
  });
}

TEST(AnyNumberOfDevices, Vae) {
  manual_seed(1);
  expect_same_on_any_number(Vae(12, 8, 2), [](auto& model, Device device) {
    const Tensor images = rand({kRows, 12}, kDoubles).to(device), noise = randn({kRows, 2}, kDoubles).to(device);
    return vae_loss(model(images, noise), images);
  });
}

TEST(AnyNumberOfDevices, Policy) {
  manual_seed(1);
  expect_same_on_any_number(Policy(8), [](auto& model, Device device) {
    const Tensor chances = model(randn({kRows, 4}, kDoubles).to(device));
    const Tensor gains = randn({kRows}, kDoubles).to(device);
    return mean(-gather_elements(chances, 1, classes(2, {kRows, 1}, device)).squeeze(1) * gains);
  });
}

// Two models and two optimizers: the generator learns through the discriminator.
template <class Generators, class Discriminators>
std::vector<std::vector<double>> train_gan(Generators& generator, Discriminators& discriminator, Device device) {
  manual_seed(11);
  optim::Adam generator_step(generator.parameters(), {.lr = 0.01});
  optim::Adam discriminator_step(discriminator.parameters(), {.lr = 0.01});
  const Tensor real = ones({kRows}, {.dtype = kFloat64, .device = device}), fake = zeros_like(real);
  for (int step = 0; step < kSteps; ++step) {
    const Tensor made = generator(randn({kRows, 3}, kDoubles).to(device));
    discriminator_step.zero_grad();
    (nn::binary_cross_entropy_with_logits(discriminator(randn({kRows, 2}, kDoubles).to(device)), real) +
     nn::binary_cross_entropy_with_logits(discriminator(made.detach()), fake))
        .backward();
    discriminator_step.step();
    generator_step.zero_grad();
    nn::binary_cross_entropy_with_logits(discriminator(made), real).backward();
    generator_step.step();
  }
  std::vector<std::vector<double>> state;
  for (const auto& [name, tensor] : generator.state_dict()) state.push_back(values(tensor));
  for (const auto& [name, tensor] : discriminator.state_dict()) state.push_back(values(tensor));
  return state;
}

TEST(AnyNumberOfDevices, GanWithTwoOptimizers) {
  manual_seed(1);
  GanGenerator generator(3, 8);
  GanDiscriminator discriminator(8);
  generator.to(kFloat64);
  discriminator.to(kFloat64);
  GanGenerator generator_alone = copy(generator);
  GanDiscriminator discriminator_alone = copy(discriminator);
  const auto expected = train_gan(generator_alone, discriminator_alone, "cpu");
  for (const int count : {1, 2, 3, 5}) {
    const TestDevices devices(count);
    DataParallel generators(copy(generator));
    DataParallel discriminators(copy(discriminator));
    const auto got = train_gan(generators, discriminators, generators.device());
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      testing::expect_close(got[i], expected[i], 1e-8, std::to_string(count) + " devices, tensor " + std::to_string(i));
  }
}

}  // namespace
}  // namespace lockstep::models
