// Options, parts and loaders that a Trainer rejects because it would silently train something else.
#include <lockstep/train/trainer.h>

#include <gtest/gtest.h>

#include <iterator>

#include <lockstep/nn/functional.h>
#include <lockstep/runtime/simulation.h>
#include <lockstep/tensor/creation.h>

#include "support/temporary_folder.h"
#include "support/test_devices.h"
#include "support/thrown.h"
#include "train/fit_job.h"

namespace lockstep::train {
namespace {

using testing::kSilent;
using testing::TemporaryFolder;
using testing::thrown;

TEST(Trainer, RefusesOptionsAndDevicesThatDoNotFit) {
  const TestDevices devices(2);
  const auto refusal = [](const TrainerOptions& options) { return thrown<InvalidArgument>([&] { Trainer{options}; }); };
  EXPECT_EQ(refusal({.num_gpus = 3}), "[trainer] expected num_gpus from 0 to 2, got 3; there is cpu, cuda:0, cuda:1");
  EXPECT_EQ(refusal({.devices = {"cuda:2"}}), "[trainer] expected existing devices (cpu, cuda:0, cuda:1), got cuda:2");
  EXPECT_EQ(refusal({.devices = {"cuda:1", "cpu"}}),
            "[trainer] expected the CPU alone or GPUs, got the CPU among others");
  EXPECT_EQ(refusal({.devices = {"cuda:1", "cuda:1"}}), "[trainer] expected each device once, got cuda:1 twice");
  EXPECT_EQ(refusal({.num_gpus = 1, .devices = {"cpu"}}), "[trainer] expected num_gpus or devices, got both");
  EXPECT_EQ(refusal({.accumulate = 0}), "[trainer] expected accumulate of at least 1, got 0");
  EXPECT_EQ(refusal({.gradient_clip_val = -1}), "[trainer] expected gradient_clip_val of at least 0, got -1");
}

TEST(Trainer, RefusesACheckpointFolderWithAByteZeroInItsName) {
  const TemporaryFolder folder;
  for (const bool resume : {false, true}) {
    const TrainerOptions options = {.num_gpus = 0,
                                    .checkpoint = {.folder = folder / std::string("a\0b", 3), .resume = resume},
                                    .progress = kSilent};
    const auto message = thrown<InvalidArgument>([&] { testing::FitJob({}).fit(options); });
    EXPECT_EQ(message.find("[trainer] expected a path without a byte 0"), 0u) << message;
  }
  EXPECT_TRUE(folder.names().empty());
}

TEST(Trainer, RefusesWhatCannotBeTrained) {
  const Trainer trainer({.num_gpus = 0, .progress = kSilent});
  nn::Linear net(2, 1), other(net);
  optim::SGD optimizer(net.parameters(), {.lr = 0.1}), of_copy(other.parameters(), {.lr = 0.1});
  std::vector<Tensor> batches(2, ones({4, 2})), none;
  const auto refusal = [&](auto& loader, const FitOptions<nn::Linear, Tensor>& options, const Trainer& by) {
    return thrown<InvalidArgument>([&] { by.fit(net, loader, options); });
  };
  const auto loss = [](auto& model, auto& batch, auto&) { return model(batch); };
  EXPECT_EQ(refusal(batches, {.loss = loss, .optimizer = of_copy}, trainer),
            "[trainer] none of the optimizer's parameters belong to the module. Was it made from a copy? Use "
            "optim::SGD(net.parameters(), ...) with the module given to fit()");
  EXPECT_EQ(refusal(batches, {.loss = {}, .optimizer = optimizer}, trainer), "[trainer] expected a loss, got none");
  EXPECT_EQ(refusal(none, {.loss = loss, .optimizer = optimizer}, trainer),
            "[trainer] expected a loader of at least one batch, got none");
  EXPECT_EQ(refusal(batches, {.loss = loss, .optimizer = optimizer}, trainer),
            "[trainer] expected a loss of one element, got shape [4, 1]: take the mean, or gather losses of replicas "
            "with .parallel = {.gather = Gather::mean}");
  const auto adds_a_loss = [](auto& model, auto& batch, auto& metrics) {
    const Tensor y = sum(model(batch));
    metrics.add("loss", y);
    return y;
  };
  EXPECT_EQ(
      refusal(batches, {.loss = adds_a_loss, .optimizer = optimizer}, trainer),
      "[trainer] the loss function added a metric named \"loss\", which is the name of the loss that it returns. Give "
      "the metric another name");
  const TemporaryFolder folder;
  const Trainer saving({.num_gpus = 0, .checkpoint = {.folder = folder.path()}, .progress = kSilent});
  EXPECT_EQ(refusal(batches, {.loss = loss, .optimizer = optimizer}, saving),
            "[trainer] expected a loader with state() and load_state() for checkpoints, got one without: use "
            "data::DataLoader, or leave checkpoint.folder empty");
}

// Reuses one batch of one number: each step of the iterator overwrites the previous batch.
class Reused {
 public:
  class Iterator {
   public:
    using value_type = Tensor;
    using difference_type = std::ptrdiff_t;
    explicit Iterator(Reused& range) : range_(&range) { range_->fill(); }
    const Tensor& operator*() const { return range_->batch_; }
    Iterator& operator++() {
      range_->fill();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return range_->made_ > 4; }

   private:
    Reused* range_;
  };
  Iterator begin() { return Iterator(*this); }
  std::default_sentinel_t end() const { return {}; }

 private:
  void fill() { batch_.fill_(++made_); }

  Tensor batch_ = zeros({1, 1});
  int made_ = 0;
};

TEST(Trainer, RefusesBatchesThatChangeBeforeTheirStep) {
  for (const std::int64_t accumulate : {1, 2}) {
    nn::Linear net(1, 1);
    optim::SGD optimizer(net.parameters(), {.lr = 0.1});
    std::vector<float> seen;
    const auto loss = [&](auto& model, Tensor& batch, auto&) {
      seen.push_back(batch.item<float>());
      return sum(model(batch));
    };
    Reused batches;
    const Trainer trainer({.num_gpus = 0, .accumulate = accumulate, .progress = kSilent});
    if (accumulate == 1) {
      trainer.fit(net, batches, {.loss = loss, .optimizer = optimizer});
      EXPECT_EQ(seen, (std::vector<float>{1, 2, 3, 4}));
    } else {
      EXPECT_THROW(trainer.fit(net, batches, {.loss = loss, .optimizer = optimizer}), InvalidArgument);
      EXPECT_TRUE(seen.empty());
    }
  }
}

TEST(Trainer, RefusesALoaderThatDoesNotBeginAnew) {
  nn::Linear net(1, 1);
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  Reused batches;  // empty after the first epoch
  const auto message = thrown<InvalidArgument>([&] {
    Trainer({.max_epochs = 2, .num_gpus = 0, .progress = kSilent})
        .fit(net, batches,
             {.loss = [](auto& model, Tensor& batch, auto&) { return sum(model(batch)); }, .optimizer = optimizer});
  });
  EXPECT_NE(message.find("the loader has no batches in epoch 2"), std::string::npos) << message;
}

TEST(Trainer, RefusesAScheduleOfAnotherOptimizer) {
  nn::Linear net(1, 1);
  optim::SGD optimizer(net.parameters(), {.lr = 1}), former(net.parameters(), {.lr = 1});
  optim::ExponentialLR schedule(former, {.gamma = 0.5});
  std::vector<Tensor> batches(2, ones({1, 1}));
  const auto loss = [](auto& model, Tensor& batch, auto&) { return sum(model(batch)); };
  EXPECT_THROW(Trainer({.num_gpus = 0, .progress = kSilent})
                   .fit(net, batches, {.loss = loss, .optimizer = optimizer, .schedule = &schedule}),
               InvalidArgument);
}

TEST(Trainer, RefusesAnOptimizerOfWhatTheModuleHadBefore) {
  struct Named : nn::Module<Named> {
    std::map<std::string, nn::Linear> layers;
    nn::Linear head{1, 1};
    auto members() { return nn::members("layers", layers, "head", head); }
    Tensor forward(const Tensor& x) { return head(layers.at("a")(x)); }
  };
  Named net;
  net.layers.emplace("a", nn::Linear(2, 1));
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  net.layers.clear();
  net.layers.emplace("a", nn::Linear(2, 1));
  std::vector<Tensor> batches(2, ones({4, 2}));
  const auto loss = [](auto& model, auto& batch, auto&) { return mean(model(batch)); };
  EXPECT_THROW(Trainer({.num_gpus = 0, .progress = kSilent}).fit(net, batches, {.loss = loss, .optimizer = optimizer}),
               InvalidArgument);
}

}  // namespace
}  // namespace lockstep::train
