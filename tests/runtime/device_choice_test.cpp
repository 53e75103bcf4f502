#include "runtime/device_choice.h"

#include <gtest/gtest.h>

#include <lockstep/core/error.h>

#include "backends/cuda/cuda_backend.h"

namespace lockstep {
namespace {

TEST(DeviceChoice, NamesSimulatedDevicesOrNone) {
  EXPECT_EQ(choose_backend("none"), nullptr);
  EXPECT_EQ(choose_backend("cpu"), nullptr);
  const std::shared_ptr<Backend> three = choose_backend("sim:3");
  EXPECT_EQ(three->device_count(), 3);
  EXPECT_EQ(three->properties(2).name, "Simulated GPU");
}

TEST(DeviceChoice, GivesSimulatedDevicesTheMemoryThatItNames) {
  EXPECT_EQ(choose_backend("sim:2,8GiB")->properties(1).memory_bytes, std::size_t(8) << 30);
  EXPECT_EQ(choose_backend("sim:2,512MiB")->properties(0).memory_bytes, std::size_t(512) << 20);
  EXPECT_EQ(choose_backend("sim:2")->properties(0).memory_bytes, std::size_t(1) << 30);
}

TEST(DeviceChoice, RefusesWhatItDoesNotKnow) {
  for (const char* choice :
       {"sim", "sim:", "sim:0", "sim:65", "sim:2x", "cudas", "cuda:", "cuda:0,", "cuda:,1", "cuda:-1", "cuda:0;1",
        "gpu", "sim:2,", "sim:2,8", "sim:2,8GB", "sim:2,0GiB", "sim:2,GiB", "sim:2,-1MiB"})
    EXPECT_THROW(choose_backend(choice), InvalidArgument) << choice;
}

TEST(DeviceChoice, TakesNoDevicesWhereThereAreNone) {
  if (find_cuda_cards().count > 0) GTEST_SKIP() << "there are GPUs";
  EXPECT_EQ(choose_backend(""), nullptr);
}

TEST(DeviceChoice, SaysWhyThereAreNoneWhenTheyAreAskedFor) {
  const CudaCards found = find_cuda_cards();
  if (found.count > 0) GTEST_SKIP() << "there are GPUs";
  for (const char* choice : {"cuda", "cuda:0,0,0"}) {
    try {
      choose_backend(choice);
      FAIL() << "no error";
    } catch (const BackendError& error) {
      EXPECT_EQ(error.code, found.code);
      EXPECT_EQ(error.device, choice);
      EXPECT_NE(std::string(error.what()).find("LOCKSTEP_DEVICES asks for GPUs, but there are none: " + found.text),
                std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace lockstep
