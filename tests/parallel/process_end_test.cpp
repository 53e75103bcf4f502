// Models and tensors that live until the process ends, after main has returned.
#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <thread>

#include <lockstep/nn/layers.h>
#include <lockstep/ops/linalg.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/optim/sgd.h>
#include <lockstep/parallel/data_parallel.h>
#include <lockstep/runtime/simulation.h>
#include <lockstep/tensor/creation.h>

namespace lockstep::process_end {
namespace {

struct Net : nn::Module<Net> {
  nn::Linear fc{2, 1};
  auto members() { return nn::members("fc", fc); }
  Tensor forward(const Tensor& x) { return fc(x); }
};

// Constructed before Lockstep's own static objects, and so destroyed after them.
Tensor tensor_to_the_end, graph_to_the_end;
std::unique_ptr<DataParallel<Net>> model_to_the_end;
std::unique_ptr<optim::SGD> optimizer_to_the_end;

class ProcessEndDeathTest : public ::testing::Test {
 protected:
  ProcessEndDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  static void simulate(const char* devices) {
    ::setenv("LOCKSTEP_DEVICES", devices, 1);
    if (cuda::device_count() == 0) std::exit(1);
  }
};

TEST_F(ProcessEndDeathTest, TensorsOfTheCpu) {
  const auto run = [] {
    tensor_to_the_end = zeros({1000}, {.requires_grad = true});
    graph_to_the_end = sum(tensor_to_the_end);
    std::exit(0);
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(0), "^$");
}

TEST_F(ProcessEndDeathTest, TensorsOfADevice) {
  const auto run = [] {
    simulate("sim:2");
    tensor_to_the_end = zeros({1000}, {.device = "cuda:1", .requires_grad = true});
    graph_to_the_end = sum(tensor_to_the_end);
    std::exit(0);
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(0), "^$");
}

TEST_F(ProcessEndDeathTest, AModelOnSeveralDevices) {
  const auto run = [] {
    simulate("sim:3");
    model_to_the_end = std::make_unique<DataParallel<Net>>(Net());
    optimizer_to_the_end = std::make_unique<optim::SGD>(model_to_the_end->parameters(), optim::SGDOptions{.lr = 0.1});
    sum((*model_to_the_end)(ones({6, 2}))).backward();
    optimizer_to_the_end->step();
    const auto guard = model_to_the_end->no_sync();
    sum((*model_to_the_end)(ones({6, 2}))).backward();
    std::exit(0);
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(0), "^$");
}

TEST_F(ProcessEndDeathTest, AnErrorThatNobodyWaitedForIsTold) {
  const auto run = [] {
    SimulatedDevices devices({.count = 1});
    devices.fault().fail_launch({.device = 0});
    zeros({10}, {.device = "cuda:0"});
    std::exit(0);
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(0),
              "cuda:0. an asynchronous error was not reported before the program ended .no synchronize.. came after "
              "the work.: .*");
}

// Another thread ends the process during matrix products: none may run when the libraries they use are destroyed.
std::atomic<std::int64_t> products = -1;  // counted by the test below; -1 if it does not run

// Runs after all static objects were destroyed and before the destructors of the libraries that this program uses.
__attribute__((destructor)) void watch_products() {
  if (products < 0) return;
  const std::int64_t before = products;
  ::usleep(50000);
  if (products > before + 1) ::_exit(3);  // one product had ended and was not counted yet
}

void multiply_to_the_end(const char* device) {
  const Tensor a = ones({128, 128}, {.device = device});
  for (products = 0;; ++products) {
    if (products == 3) std::thread([] { std::exit(0); }).detach();
    static_cast<void>(matmul(a, a).select(0, 0).select(0, 0).item<float>());
  }
}

TEST_F(ProcessEndDeathTest, AnotherThreadEndsItWhileTheCpuComputes) {
  EXPECT_EXIT(multiply_to_the_end("cpu"), ::testing::ExitedWithCode(0), "^$");
}

TEST_F(ProcessEndDeathTest, AnotherThreadEndsItWhileADeviceComputes) {
  const auto run = [] {
    simulate("sim:2");
    multiply_to_the_end("cuda:1");
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(0), "^$");
}

}  // namespace
}  // namespace lockstep::process_end
