// A Trainer trains the same on batches that a loader copies ahead, and on those of a stream.
#include <gtest/gtest.h>

#include <optional>
#include <tuple>
#include <vector>

#include <lockstep/data/loader.h>
#include <lockstep/data/tensor_dataset.h>
#include <lockstep/nn/functional.h>
#include <lockstep/nn/layers.h>
#include <lockstep/optim/sgd.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>
#include <lockstep/train/trainer.h>

#include "support/temporary_folder.h"
#include "support/test_devices.h"
#include "support/thrown.h"
#include "train/fit_job.h"

namespace lockstep::train {
namespace {

using Pair = std::tuple<Tensor, Tensor>;

data::TensorDataset<2> pairs_to_learn() {
  GeneratorState generator{.seed = 46};
  const GeneratorGuard guard(generator);
  const Tensor x = randn({46, 4});
  return data::TensorDataset(x, randn({46, 2}));
}

/// The same, one after the other, without a size.
struct PairStream {
  data::TensorDataset<2> pairs = pairs_to_learn();
  std::int64_t at = 0;
  std::int64_t fail_in = -1;  // throws in place of this sample, from 0, of all epochs
  std::optional<Pair> next() {
    if (fail_in-- == 0) throw std::runtime_error("power failure");
    return at < pairs.size() ? std::optional(pairs.get(at++)) : std::nullopt;
  }
  void reset() { at = 0; }
};

template <class Loader>
std::vector<float> weights_after(Loader loader, TrainerOptions options) {
  GeneratorState generator{.seed = 3};
  const GeneratorGuard guard(generator);
  nn::Linear net(4, 2);
  optim::SGD optimizer(net.parameters(), {.lr = 0.05, .momentum = 0.9});
  options.max_epochs = 3;
  options.progress = testing::kSilent;
  Trainer(options).fit(net, loader,
                       {.loss =
                            [](auto& model, auto& batch, auto&) {
                              auto& [input, target] = batch;
                              return mse_loss(model(input), target);
                            },
                        .optimizer = optimizer});
  return net.weight.cpu().to_vector<float>();
}

TEST(TrainerLoaders, GiveTheSameModelWhereverBatchesAreMade) {
  const TestDevices devices(3);
  for (const int gpus : {1, 3}) {
    const TrainerOptions options = {.num_gpus = gpus, .accumulate = 2};
    const std::vector<float> expected =
        weights_after(data::DataLoader(pairs_to_learn(), {.batch_size = 5, .seed = 1}), options);
    for (const int workers : {0, 2}) {
      const data::LoaderOptions ahead = {.batch_size = 5, .seed = 1, .num_workers = workers, .device = Device("cuda:0")};
      EXPECT_EQ(weights_after(data::DataLoader(pairs_to_learn(), ahead), options), expected) << gpus << ' ' << workers;
      EXPECT_EQ(weights_after(data::DataLoader(PairStream(), ahead), options), expected) << gpus << ' ' << workers;
    }
  }
}

// The epoch ends when the data do. A checkpoint may be that of its last step, which nobody knew to be the last.
TEST(TrainerLoaders, WithoutASizeGoOnFromAnyCheckpoint) {
  const std::vector<float> expected =
      weights_after(data::DataLoader(PairStream(), {.batch_size = 5, .seed = 1}), {.num_gpus = 0});
  for (int fail_in = 1; fail_in < 29; ++fail_in) {
    const testing::TemporaryFolder folder;
    const TrainerOptions options = {
        .num_gpus = 0, .checkpoint = {.folder = folder.path(), .every_steps = 5, .keep = 0, .resume = true}};
    PairStream failing;
    failing.fail_in = fail_in * 5 - 2;
    EXPECT_THROW(weights_after(data::DataLoader(failing, {.batch_size = 5, .seed = 1}), options), std::runtime_error);
    EXPECT_EQ(weights_after(data::DataLoader(PairStream(), {.batch_size = 5, .seed = 1}), options), expected)
        << fail_in;
  }
}

/// Cannot begin anew.
struct Once : PairStream {
  void reset() = delete;
};

TEST(TrainerLoaders, ThatCannotBeginAnewAreRefusedAtOnceWhereThereAreCheckpoints) {
  const testing::TemporaryFolder folder;
  static_assert(!data::kRestartable<Once>);
  EXPECT_NE(testing::thrown<InvalidArgument>([&] {
              weights_after(data::DataLoader(Once(), {.batch_size = 5}),
                            {.num_gpus = 0, .checkpoint = {.folder = folder.path()}});
            }).find("reset()"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep::train
