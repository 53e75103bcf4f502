// The library warns about a parameter that a model uses but members() does not name: training would ignore it.
#include <lockstep/parallel/unnamed_parameters.h>

#include <gtest/gtest.h>

#include <lockstep/nn/layers.h>
#include <lockstep/nn/sequential.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/optim/sgd.h>
#include <lockstep/parallel/data_parallel.h>
#include <lockstep/tensor/creation.h>

#include "support/no_devices.h"
#include "support/test_devices.h"
#include "support/thrown.h"
#include "train/fit_job.h"

namespace lockstep::train {
namespace {

using testing::kSilent;

struct Forgetful : nn::Module<Forgetful> {
  nn::Linear named{2, 3}, forgotten{3, 1};
  bool without_gradient = false;
  auto members() { return nn::members("named", named); }
  Tensor forward(const Tensor& x) {
    const Tensor h = named(x);
    if (!without_gradient) return forgotten(h);
    const NoGrad guard;
    return forgotten(h);
  }
};

std::string told_of(const std::function<void()>& f) {
  ::testing::internal::CaptureStderr();
  f();
  return ::testing::internal::GetCapturedStderr();
}

constexpr const char* kTold =
    "[members] the model computes with parameters that members() does not name, of shapes [1], [1, 3]: nothing trains, "
    "moves or saves them. Name their layers there, or use them under NoGrad\n";

TEST(UnnamedParameters, AreToldOfOnceByATrainer) {
  Forgetful net;
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  std::vector<Tensor> batches(3, ones({4, 2}));
  const auto fit = [&] {
    Trainer({.max_epochs = 2, .num_gpus = 0, .progress = kSilent})
        .fit(net, batches,
             {.loss = [](auto& model, auto& batch, auto&) { return mean(model(batch)); }, .optimizer = optimizer});
  };
  EXPECT_EQ(told_of(fit), kTold);
}

TEST(UnnamedParameters, AreToldOfOnceByADataParallelOnTheCpu) {
  const NoDevices there;
  DataParallel model(Forgetful{});
  EXPECT_EQ(told_of([&] {
              {
                const NoGrad guard;
                model(ones({4, 2}));
              }
              model(ones({4, 2}));
            }),
            kTold);
  EXPECT_EQ(told_of([&] { model(ones({4, 2})); }), "");
}

TEST(UnnamedParameters, AreThoseOfTheModelAlone) {
  const NoDevices there;
  EXPECT_EQ(told_of([] {
              DataParallel model(nn::Sequential(nn::Linear(2, 3), nn::Linear(3, 2)));
              nn::Linear before(2, 2), after(2, 2);
              after(model(before(ones({4, 2}))));    // other modules' parameters
              model(ones({4, 2}).requires_grad_());  // an input that requires a gradient, but is no parameter
              model(model(ones({4, 2})));            // its own parameters, through an input
            }),
            "");
  EXPECT_EQ(told_of([] {
              DataParallel model([] {
                Forgetful net;
                net.without_gradient = true;
                return net;
              }());
              model(ones({4, 2}));
            }),
            "");
}

TEST(UnnamedParameters, AreNamedByReplicas) {
  const TestDevices devices(2);
  EXPECT_EQ(told_of([] { DataParallel(nn::Linear(2, 3))(ones({4, 2})); }), "");
}

TEST(UnnamedParameters, OnAnotherDeviceAreAMismatchThatSaysSo) {
  const TestDevices devices(2);
  DataParallel model(Forgetful{});
  const std::string message = testing::thrown<DeviceMismatch>([&] { model(ones({4, 2})); });
  EXPECT_NE(message.find("a parameter stays where it was made unless members() names its layer"), std::string::npos)
      << message;
}

}  // namespace
}  // namespace lockstep::train
