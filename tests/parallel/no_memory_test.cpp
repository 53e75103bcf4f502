// The host runs out of memory on an internal thread: the step throws that error, and the next step is correct.
#include <gtest/gtest.h>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // sanitizers replace the allocation functions
#include <atomic>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/ops/linalg.h>
#include <lockstep/optim/sgd.h>
#include <lockstep/parallel/sync_batch_norm.h>

#include "parallel/mlp_job.h"
#include "support/values.h"

namespace {

std::atomic<bool> memory_fails = false;
std::atomic<long> first_to_fail = 0, last_to_fail = 0, requests = 0;
thread_local bool is_spared = false;

bool fails_now() {
  if (!memory_fails.load(std::memory_order_relaxed) || is_spared) return false;
  const long number = ++requests;
  return first_to_fail <= number && number <= last_to_fail;
}

}  // namespace

void* operator new(std::size_t bytes) {
  void* const memory = fails_now() ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
  if (!memory) throw std::bad_alloc();
  return memory;
}
// If these were inlined, GCC would warn that free() does not match operator new.
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace lockstep {
namespace {

using testing::values;

// While it lives, `count` allocations from the nth on fail, in all threads except the one that made it.
class NoMemory {
 public:
  NoMemory(long nth, long count) {
    is_spared = true;
    requests = 0;
    first_to_fail = nth;
    last_to_fail = nth + count - 1;
    memory_fails = true;
  }
  ~NoMemory() { memory_fails = is_spared = false; }
  NoMemory(const NoMemory&) = delete;
  NoMemory& operator=(const NoMemory&) = delete;

  bool has_failed() const { return requests >= first_to_fail; }
};

class NoMemoryInAStep : public ::testing::TestWithParam<long> {
 protected:
  void step() {
    optimizer_.zero_grad();
    const Tensor output = model_(input_);
    mean(output * output).backward();
    optimizer_.step();
    for (const Device& device : model_.devices()) synchronize(device);
  }

  std::vector<std::vector<double>> parameters() {
    std::vector<std::vector<double>> all;
    for (const Tensor& parameter : model_.parameters()) all.push_back(values(parameter));
    return all;
  }
  void set_parameters(const std::vector<std::vector<double>>& all) {
    const NoGrad guard;
    std::size_t i = 0;
    for (Tensor parameter : model_.parameters()) {
      parameter.copy_(from_host(all[i].data(), all[i].size(), kFloat64, parameter.sizes(), {.dtype = kFloat64}));
      ++i;
    }
  }

  SimulatedDevices devices_{{.count = 3}};
  DataParallel<nn::Sequential> model_{
      nn::Sequential(nn::Linear(5, 8), nn::SyncBatchNorm(8), nn::ReLU(), nn::Linear(8, 2))};
  optim::SGD optimizer_{model_.parameters(), {.lr = 0.1}};
  Tensor input_ = randn({11, 5});
};

TEST_P(NoMemoryInAStep, IsItsErrorAndTheNextOneSucceeds) {
  for (int i = 0; i < 3; ++i) step();
  const std::vector<std::vector<double>> before = parameters();
  const auto step_from_there = [&] {
    set_parameters(before);
    step();
    return parameters();
  };
  const std::vector<std::vector<double>> right = step_from_there();
  long nth = 1;
  for (bool failed = true; failed; nth += 3) {
    SCOPED_TRACE("from request " + std::to_string(nth));
    {
      const NoMemory none(nth, GetParam());
      try {
        EXPECT_EQ(step_from_there(), right);
      } catch (const std::exception&) {
      }
      failed = none.has_failed();
    }
    EXPECT_EQ(step_from_there(), right);
  }
  EXPECT_GT(nth, 100);
}

INSTANTIATE_TEST_SUITE_P(Requests, NoMemoryInAStep, ::testing::Values(1, 1000000));

// A product of 16-bit numbers allocates host memory on its stream's worker thread.
TEST(NoMemoryInAKernel, IsItsStreamsErrorAlsoWhereThereIsNoneToKeepTheError) {
  const SimulatedDevices devices({.count = 1});
  const Tensor a = ones({4, 4}, {.dtype = kFloat16, .device = "cuda:0"});
  synchronize("cuda:0");
  for (const long count : {1, 1000000}) {
    const NoMemory none(1, count);
    EXPECT_ANY_THROW(values(matmul(a, a)));
    EXPECT_TRUE(none.has_failed());
  }
  EXPECT_EQ(values(matmul(a, a)), std::vector<double>(16, 4));
}

}  // namespace
}  // namespace lockstep
#endif
