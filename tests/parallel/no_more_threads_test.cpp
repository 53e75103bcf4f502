// A process that cannot start more threads: passes and backward throw, do not hang, and work again afterwards.
#include <lockstep/core/error.h>

#if defined(__GLIBC__)
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <lockstep/autograd/autograd.h>
#include <lockstep/nn/layers.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/parallel/data_parallel.h>
#include <lockstep/runtime/simulation.h>
#include <lockstep/tensor/creation.h>

#include "support/must_end.h"
#include "support/no_more_threads.h"
#include "support/thrown.h"
#include "support/values.h"

namespace lockstep {
namespace {

using testing::must_end;
using testing::thrown;
using testing::values;

constexpr const char* kNoThread = "[start_thread] failed on cuda:1 with code 11: ";

TEST(NoMoreThreads, APassSaysSo) {
  const SimulatedDevices devices({.count = 2});
  DataParallel<nn::Linear> model(nn::Linear(2, 2));  // the streams have started their threads here
  const Tensor input = ones({4, 2});
  must_end({[&] {
    const testing::NoMoreThreads none;
    const std::string message = thrown<BackendError>([&] { model(input); });
    EXPECT_TRUE(message.starts_with(kNoThread)) << message;
    EXPECT_TRUE(message.ends_with("(in replica 1 on cuda:1)")) << message;
  }});
  EXPECT_EQ(model(input).sizes(), (Shape{4, 2}));
}

TEST(NoMoreThreads, BackwardSaysSo) {
  const SimulatedDevices devices({.count = 2});
  const Tensor x = full({3}, 2., {.device = "cuda:0", .requires_grad = true});
  const auto loss = [&] { return sum((x.to("cuda:1") * 3).to("cuda:0")); };
  const Tensor first = loss();
  must_end({[&] {
    const testing::NoMoreThreads none;
    const std::string message = thrown<BackendError>([&] { first.backward(); });
    EXPECT_TRUE(message.starts_with(kNoThread)) << message;
  }});
  EXPECT_FALSE(x.grad().defined());
  loss().backward();
  EXPECT_EQ(values(x.grad()), std::vector<double>(3, 3));
}

TEST(NoMoreThreads, SumsOfGradientsSaySo) {
  const SimulatedDevices devices({.count = 2});
  DataParallel<nn::Linear> model(nn::Linear(2, 1));
  const auto loss = [&] { return sum(model(ones({4, 2}))); };
  {
    const auto guard = model.no_sync();
    loss().backward();  // starts the devices' threads, without summing
  }
  model.zero_grad();
  const Tensor first = loss();
  must_end({[&] {
    const testing::NoMoreThreads none;
    const std::string message = thrown<BackendError>([&] { first.backward(); });
    EXPECT_TRUE(message.starts_with("[start_thread] failed on cuda:0 with code 11: ")) << message;
  }});
  model.zero_grad();
  loss().backward();
  EXPECT_EQ(values(model.parameters()[0].grad()), std::vector<double>(2, 4));
}

}  // namespace
}  // namespace lockstep
#endif
