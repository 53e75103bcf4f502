// The emulator itself: kernels that are right in every order, and its errors for wrong ones.
#include <gtest/gtest.h>

#include <cuda_runtime.h>

#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda/fake/fake_cuda.h"
#include "support/thrown.h"

namespace lockstep::emulation {
namespace {

constexpr Order kOrders[] = {Order::forward, Order::reverse, Order::shuffled};

class Emulator : public ::testing::TestWithParam<Order> {
 protected:
  void SetUp() override { settings().order = GetParam(); }
  void TearDown() override { settings() = outer_; }

 private:
  const Settings outer_ = settings();
};

std::string name_of(const ::testing::TestParamInfo<Order>& order) {
  return order.param == Order::forward ? "Forward" : order.param == Order::reverse ? "Reverse" : "Shuffled";
}
INSTANTIATE_TEST_SUITE_P(, Emulator, ::testing::ValuesIn(kOrders), name_of);

template <class Kernel, class... Arguments>
void run(dim3 blocks, dim3 threads, Kernel kernel, Arguments... arguments) {
  run_grid(blocks, threads, [=] { kernel(arguments...); });
}

// Running sums of each block's numbers, by doubling (Hillis and Steele, "Data parallel algorithms", CACM 29(12), 1986).
__global__ void scan(const int* in, int* out) {
  __shared__ int sums[100];
  const unsigned i = threadIdx.x;
  sums[i] = in[blockIdx.x * blockDim.x + i];
  __syncthreads();
  for (unsigned step = 1; step < blockDim.x; step *= 2) {
    const int before = i >= step ? sums[i - step] : 0;
    __syncthreads();
    sums[i] += before;
    __syncthreads();
  }
  out[blockIdx.x * blockDim.x + i] = sums[i];
}

TEST_P(Emulator, BarriersOrderSharedMemory) {
  std::vector<int> in(300), out(300), expected(300);
  std::iota(in.begin(), in.end(), 1);
  for (int block = 0; block < 3; ++block)
    std::partial_sum(in.begin() + block * 100, in.begin() + (block + 1) * 100, expected.begin() + block * 100);
  run(3, 100, scan, in.data(), out.data());
  EXPECT_EQ(out, expected);
}

// Removes each barrier of scan(); all of them are needed.
class ScanWithout : public ::testing::Test {
 protected:
  ScanWithout() : in_(100), out_(100), expected_(100) {
    std::iota(in_.begin(), in_.end(), 1);
    std::partial_sum(in_.begin(), in_.end(), expected_.begin());
    settings().barriers.clear();
    scan_all();
    barriers_ = settings().barriers;
    EXPECT_EQ(barriers_.size(), 3u);
  }
  ~ScanWithout() override { settings() = outer_; }

  void scan_all() { run(1, 100, scan, in_.data(), out_.data()); }

  const Settings outer_ = settings();
  std::vector<int> in_, out_, expected_;
  std::vector<Site> barriers_;
};

#ifdef __SANITIZE_THREAD__
using ScanWithoutDeathTest = ScanWithout;
TEST_F(ScanWithoutDeathTest, ABarrierIsARaceInEveryOrder) {
  for (const Site& barrier : barriers_)
    for (const Order order : kOrders) {
      settings().order = order;
      settings().without = barrier;
      EXPECT_DEATH(scan_all(), "data race") << "without the barrier in line " << barrier.line;
    }
}
#else
TEST_F(ScanWithout, ABarrierIsWrongInSomeOrder) {
  for (const Site& barrier : barriers_) {
    bool wrong = false;
    for (const Order order : kOrders) {
      settings().order = order;
      settings().without = barrier;
      scan_all();
      wrong = wrong || out_ != expected_;
    }
    EXPECT_TRUE(wrong) << "without the barrier in line " << barrier.line;
  }
}
#endif

__global__ void transpose(const int* in, int* out, unsigned n) {
  __shared__ int tile[8][9];
  const unsigned x = blockIdx.x * 8, y = blockIdx.y * 8;
  tile[threadIdx.y][threadIdx.x] = in[(y + threadIdx.y) * n + x + threadIdx.x];
  __syncthreads();
  out[(x + threadIdx.y) * n + y + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}

TEST_P(Emulator, ThreadsAndBlocksHaveTheirIndices) {
  std::vector<int> in(24 * 24), out(24 * 24);
  std::iota(in.begin(), in.end(), 0);
  run(dim3(3, 3), dim3(8, 8), transpose, in.data(), out.data(), 24u);
  for (int i = 0; i < 24; ++i)
    for (int j = 0; j < 24; ++j) ASSERT_EQ(out[std::size_t(j * 24 + i)], in[std::size_t(i * 24 + j)]);
}

__global__ void shuffles(int* out) {
  const int lane = int(threadIdx.x) % 32;
  int sum = lane;
  for (int half = 16; half > 0; half /= 2) sum += __shfl_down_sync(0xffffffffu, sum, unsigned(half));
  out[threadIdx.x] = __shfl_sync(0xffffffffu, sum, 0) * 10'000 + __shfl_xor_sync(0xffffffffu, lane, 5) * 100 +
                     __shfl_down_sync(0xffffffffu, lane, 3u);
}

TEST_P(Emulator, ShufflesPassValuesWithinAWarp) {
  std::vector<int> out(96);
  run(1, 96, shuffles, out.data());
  for (int i = 0; i < 96; ++i) {
    const int lane = i % 32;
    EXPECT_EQ(out[std::size_t(i)], 496 * 10'000 + (lane ^ 5) * 100 + (lane < 29 ? lane + 3 : lane));
  }
}

TEST_P(Emulator, NamesTheBarriersWhereThreadsOfABlockPart) {
  const std::string message = testing::thrown<std::logic_error>([] {
    run(1, 32, [] {
      if (threadIdx.x < 16)
        __syncthreads();
      else
        __syncthreads();
    });
  });
  EXPECT_NE(message.find("two barriers"), std::string::npos) << message;
  EXPECT_NE(message.find("emulator_test.cpp"), std::string::npos) << message;
}

TEST_P(Emulator, RefusesAMaskThatNamesALaneThatDoesNotCome) {
  EXPECT_THROW(run(1, 32,
                   [] {
                     if (threadIdx.x > 0) __shfl_down_sync(0xffffffffu, 1, 1u);
                   }),
               std::logic_error);
  EXPECT_THROW(run(1, 20, [] { __shfl_down_sync(0xffffffffu, 1, 1u); }), std::logic_error);
  EXPECT_THROW(run(1, 32, [] { __shfl_down_sync(0xfffffffeu, 1, 1u); }), std::logic_error);
}

TEST_P(Emulator, ReportsThreadsThatWaitForEver) {
  const std::string message = testing::thrown<std::logic_error>([] {
    run(1, 64, [] {
      if (threadIdx.x < 32)
        __syncthreads();
      else if (threadIdx.x < 48)
        __shfl_down_sync(0xffffffffu, 1, 1u);
      else
        __syncthreads();
    });
  });
  EXPECT_NE(message.find("wait for ever"), std::string::npos) << message;
}

TEST_P(Emulator, WhatAThreadThrowsEndsTheGridAndTheNextRunsAsEver) {
  const auto fails = [] {
    __syncthreads();
    if (threadIdx.x == 70) throw std::out_of_range("thread 70");
    __syncthreads();
  };
  EXPECT_THROW(run(2, 100, fails), std::out_of_range);
  std::vector<int> out(96);
  run(1, 96, shuffles, out.data());
  EXPECT_EQ(out[0], 496 * 10'000 + 5 * 100 + 3);
}

__global__ void empty_kernel() {}

// Otherwise the bytes would arrive in the shared memory of another block.
TEST(EmulatedCopies, AreAllWaitedFor) {
  alignas(16) static std::byte from[16], to[16];
  const auto copy_in_two_blocks = [](bool waits) {
    run_grid(2, 1, [&] {
      begin_copy(to, from, true);
      if (waits) finish_copies();
    });
  };
  EXPECT_NO_THROW(copy_in_two_blocks(true));
  EXPECT_THROW(copy_in_two_blocks(false), std::logic_error);
}

TEST(EmulatedCopies, ArriveWhenTheThreadWaits) {
  alignas(16) static std::byte from[16], to[16];
  from[3] = std::byte(7);
  std::vector<int> seen;
  run_grid(1, 1, [&] {
    for (const bool exists : {true, false}) {
      begin_copy(to, from, exists);
      seen.push_back(int(to[3]));
      finish_copies();
      seen.push_back(int(to[3]));
    }
  });
  EXPECT_EQ(seen, (std::vector<int>{0, 7, 7, 0}));
}

TEST(EmulatedLaunch, IsRefusedAsACardOfComputeCapability9WouldRefuseIt) {
  const auto launch = [](dim3 blocks, dim3 threads, std::size_t shared) {
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks;
    config.blockDim = threads;
    config.dynamicSmemBytes = shared;
    return cudaLaunchKernelEx(&config, empty_kernel);
  };
  const Settings outer = settings();
  settings().record_only = true;
  for (const dim3 blocks : {dim3(0), dim3(1, 0), dim3(1u << 31), dim3(1, 65'536), dim3(1, 1, 65'536)})
    EXPECT_EQ(launch(blocks, 32, 0), cudaErrorInvalidConfiguration);
  for (const dim3 threads : {dim3(0), dim3(1025), dim3(32, 33), dim3(1, 1, 65)})
    EXPECT_EQ(launch(1, threads, 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(1, 32, 228 << 10), cudaErrorInvalidConfiguration);
  EXPECT_TRUE(settings().launches.empty());
  EXPECT_EQ(launch(dim3((1u << 31) - 1, 65'535, 65'535), dim3(16, 64), 227 << 10), cudaSuccess);
  EXPECT_EQ(settings().launches.size(), 1u);
  settings() = outer;
}

}  // namespace
}  // namespace lockstep::emulation
