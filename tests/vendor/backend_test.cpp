// The CUDA backend without a driver: with the real libraries, whose calls then all fail. And NCCL with one rank, if
// there is a driver.
#include "backends/cuda/cuda_backend.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <mutex>
#include <set>
#include <string>

#include <lockstep/core/error.h>
#include <lockstep/runtime/device.h>

#include "backends/cuda/arena.h"
#include "backends/cuda/communicator.h"
#include "backends/cuda/device_memory.h"
#include "backends/cuda/matmul_plans.h"
#include "backends/cuda/pinned_cache.h"
#include "backends/cuda/vendor_library.h"
#include "backends/cuda/vendor_tables.h"
#include "core/text.h"
#include "support/no_devices.h"

namespace lockstep::gpu {
namespace {

const std::set<int> kNoDevice = {34, 35, 100};

class WithoutDriver : public ::testing::Test {
 protected:
  void SetUp() override {
    if (find_cuda_cards().count > 0) GTEST_SKIP() << "a driver answers here";
  }
};

template <class Body>
void expect_backend_error(const char* api, Body body, const char* device = "cuda:3") {
  try {
    body();
    FAIL() << "no error";
  } catch (const BackendError& error) {
    EXPECT_EQ(error.api, api);
    EXPECT_NE(error.code, 0);
    EXPECT_EQ(error.device, device);
  }
}

TEST_F(WithoutDriver, TheDriverIsNotThereEachTimeItIsAsked) {
  for (int i = 0; i < 3; ++i) {
    const CudaCards found = find_cuda_cards();
    EXPECT_EQ(found.count, 0);
    EXPECT_TRUE(kNoDevice.contains(found.code)) << found.code;
    EXPECT_FALSE(found.text.empty());
  }
}

TEST_F(WithoutDriver, ThereAreNoDevices) {
  const NoDevices there;
  EXPECT_EQ(cuda::device_count(), 0);
  EXPECT_FALSE(cuda::is_available());
  EXPECT_TRUE(try_gpu().is_cpu());
}

TEST_F(WithoutDriver, ABackendOfCardsThatAreNotThereIsRefused) {
  EXPECT_THROW(make_cuda_backend({.cards = {0}}), InvalidArgument);
}

TEST_F(WithoutDriver, EveryCallSaysWhatFailedAndWhere) {
  expect_backend_error("cudaMalloc", [] { make_memory(3, 1024); });
  expect_backend_error("cudaMalloc", [] { DeviceMemory(3, 4096, 0).allocate(1024); });
  expect_backend_error("cudaMalloc", [] { DeviceMemory(3, 4096, 2048).allocate(1024); });
  IssueMutex issue_mutex;
  expect_backend_error(  // fails as it makes its card current
      "cudaSetDevice", [&] { PinnedCache(3, 5, issue_mutex).take(100, [](cudaEvent_t) {}); }, "card 5");
  expect_backend_error("cudaStreamCreateWithPriority", [] { make_stream(3, 0); });
  expect_backend_error("cudaEventCreateWithFlags", [] { make_event(3); });
  expect_backend_error(
      "cudaSetDevice", [] { use_card(3); }, "card 3");
  expect_backend_error("cublasLtCreate", [&] { MatmulPlans(3, false, issue_mutex); });
}

Peers one_process(std::size_t devices) {
  Peers peers;
  peers.devices = {devices};
  return peers;
}

TEST_F(WithoutDriver, NcclRefusesToConnect) {
  EXPECT_THROW(make_nccl_communicator({{0, 0}, {1, 1}}, one_process(2), {})->start(), Error);
}

// NCCL on one card: devices that share a card do not use it. Its self-test sums a number.
TEST(WithDriver, NcclConnectsASingleRankAndSumsItsNumber) {
  if (find_cuda_cards().count == 0) GTEST_SKIP() << "no driver answers here";
  EXPECT_NO_THROW(make_nccl_communicator({{0, 0}}, one_process(1), {})->start());
}

bool is_loaded(const std::string& file) { return dlopen(file.c_str(), RTLD_LAZY | RTLD_NOLOAD) != nullptr; }

const bool kLoadedAtStart = is_loaded(text("libcublasLt.so.", CUBLAS_VER_MAJOR)) ||
                            is_loaded(text("libcudnn.so.", CUDNN_MAJOR)) || is_loaded(text("libnccl.so.", NCCL_MAJOR));

TEST(VendorTables, AreFilledOnFirstUseFromLibrariesOfTheHeadersMajorVersions) {
  EXPECT_FALSE(kLoadedAtStart);
  EXPECT_NE(cublas_lt().cublasLtGetStatusString(CUBLAS_STATUS_SUCCESS), nullptr);
  EXPECT_EQ(cudnn().cudnnGetVersion() / 10000, CUDNN_MAJOR);
  int version = 0;
  ASSERT_EQ(nccl().ncclGetVersion(&version), ncclSuccess);
  EXPECT_EQ(version / 10000, NCCL_MAJOR);
  EXPECT_TRUE(is_loaded(text("libcublasLt.so.", CUBLAS_VER_MAJOR)));
  EXPECT_TRUE(is_loaded(text("libcudnn.so.", CUDNN_MAJOR)));
  EXPECT_TRUE(is_loaded(text("libnccl.so.", NCCL_MAJOR)));
}

template <class Table>
void expect_functions_of_their_own(const Table& table) {
  const auto functions = std::bit_cast<std::array<void*, sizeof(Table) / sizeof(void*)>>(table);
  const std::set<void*> different(functions.begin(), functions.end());
  EXPECT_EQ(different.size(), functions.size());
  EXPECT_FALSE(different.contains(nullptr));
}

TEST(VendorTables, HaveAFunctionOfItsOwnInEachPlace) {
  expect_functions_of_their_own(cublas_lt());
  expect_functions_of_their_own(cudnn());
  expect_functions_of_their_own(nccl());
}

TEST(VendorTables, CannotBeFilledFromALibraryThatIsNotThere) {
  try {
    const VendorLibrary library({"NCCL 99", "libnccl.so.99", ""});
    FAIL() << "no error";
  } catch (const BackendError& error) {
    EXPECT_EQ(error.api, "dlopen");
    const std::string message = error.what();
    for (const char* word : {"libnccl.so.99: cannot open shared object file", "install NCCL 99", "LD_LIBRARY_PATH"})
      EXPECT_NE(message.find(word), std::string::npos) << word << " in " << message;
  }
}

TEST(DeviceMemory, DoesNotGoBeyondItsShare) { EXPECT_EQ(DeviceMemory(0, 1000, 0).allocate(1001), nullptr); }

TEST(Arena, ReusesWhatWasGivenBackAndMergesNeighbours) {
  Arena arena(4096);
  EXPECT_EQ(arena.take(1000), 0);  // rounded to 1024
  EXPECT_EQ(arena.take(1024), 1024);
  EXPECT_EQ(arena.take(2048), 2048);
  EXPECT_EQ(arena.take(1), std::nullopt);
  arena.give(0, 1000);
  arena.give(2048, 2048);
  EXPECT_EQ(arena.take(3072), std::nullopt);  // not adjacent
  arena.give(1024, 1024);
  EXPECT_EQ(arena.take(4096), 0);
}

}  // namespace
}  // namespace lockstep::gpu
