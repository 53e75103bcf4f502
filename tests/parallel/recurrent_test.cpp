// Recurrent layers under DataParallel: a step on any number of devices equals that of one, with dropout between layers.
#include <gtest/gtest.h>

#include <lockstep/nn/layers.h>
#include <lockstep/nn/packed_sequence.h>
#include <lockstep/nn/recurrent.h>
#include <lockstep/ops/join.h>
#include <lockstep/ops/loss.h>
#include <lockstep/optim/sgd.h>
#include <lockstep/parallel/data_parallel.h>
#include <lockstep/tensor/random.h>

#include "parallel/expect_close.h"
#include "support/replicas.h"
#include "support/test_devices.h"

namespace lockstep {
namespace {

// The last step of an LSTM over whole sequences, next to that of a GRU over packed ones.
struct Classifier : nn::Module<Classifier> {
  nn::LSTM lstm;
  nn::GRU gru;
  nn::Linear head;
  Classifier()
      : lstm(3, 6,
             {.num_layers = 2,
              .batch_first = true,
              .dropout = 0.4,
              .bidirectional = true,
              .tensor = {.dtype = kFloat64}}),
        gru(3, 5, {.batch_first = true, .tensor = {.dtype = kFloat64}}),
        head(17, 2, {.tensor = {.dtype = kFloat64}}) {}
  auto members() { return nn::members("lstm", lstm, "gru", gru, "head", head); }
  Tensor forward(const Tensor& x, const Tensor& lengths) {
    const auto packed =
        nn::pack_padded_sequence(x, lengths.to_vector<std::int64_t>(), {.batch_first = true, .enforce_sorted = false});
    return head(cat({lstm(x).output.select(1, -1), gru(packed).h[0]}, 1));
  }
};

std::vector<double> flat(const std::vector<Tensor>& tensors) {
  std::vector<double> all;
  for (const Tensor& x : tensors)
    for (const double value : x.detach().cpu().to_vector<double>()) all.push_back(value);
  return all;
}

// Losses of the steps, then all parameters.
template <class Model>
std::vector<double> train(Model& model, Device device) {
  manual_seed(3);
  optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  std::vector<double> losses;
  for (int step = 0; step < 4; ++step) {
    const Tensor x = randn({7, 5, 3}, {.dtype = kFloat64}), y = randint(0, 2, {7});
    const Tensor lengths = randint(1, 6, {7});
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(model(x.to(device), lengths.to(device)), y.to(device));
    losses.push_back(loss.item<double>());
    loss.backward();
    optimizer.step();
  }
  const std::vector<double> parameters = flat(model.parameters());
  losses.insert(losses.end(), parameters.begin(), parameters.end());
  return losses;
}

TEST(RecurrentModels, TrainOnAnyNumberOfDevicesAsOnOne) {
  manual_seed(1);
  const Classifier initial;
  Classifier alone(initial);
  const std::vector<double> expected = train(alone, "cpu");
  for (const int count : {1, 2, 3, 5}) {
    const TestDevices devices(count);
    DataParallel model(copy(initial));
    testing::expect_close(train(model, model.device()), expected, 1e-10, std::to_string(count) + " devices");
    for (const auto& [name, parameter] : model.named_parameters())
      for (const Tensor& replica : testing::other_replicas(parameter))
        EXPECT_EQ(flat({replica}), flat({parameter})) << name;
  }
}

TEST(RecurrentModels, TrainTwiceToTheSameBits) {
  manual_seed(1);
  const Classifier initial;
  const TestDevices devices(3);
  DataParallel first(copy(initial)), second(copy(initial));
  EXPECT_EQ(train(first, first.device()), train(second, second.device()));
}

}  // namespace
}  // namespace lockstep
