// The real cuDNN without a driver: it accepts the graphs that are built here, lists engines for a card that is only
// described, and finalizes them. Running them needs a GPU and is not tested here.
#include <cudnn_graph.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string_view>

#include <lockstep/core/error.h>

#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/cudnn/convolution.h"
#include "backends/cuda/cudnn/engines.h"
#include "backends/cuda/fused_plans.h"
#include "core/channels_last.h"

namespace lockstep::gpu {
namespace {

// The description of an H100 by CUDA.
constexpr std::string_view kH100 = R"({"cudaDeviceId":0,"deviceVer":900,"driverVer":13000,
  "maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,"multiProcessorCount":132,
  "warpSize":32,"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":232448,
  "reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,
  "maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,"smClockRateKHz":1980000,
  "memClockRateKHz":2619000,"l2CacheSize":52428800,"totalGlobalMem":85520809984,"deviceName":"NVIDIA H100 80GB HBM3"})";

constexpr std::array kKinds{FusedKind::convolution, FusedKind::convolution_input_gradient,
                            FusedKind::convolution_weight_gradient};
constexpr std::array kDTypes{kFloat16, kBFloat16, kFloat32, kFloat64};

struct Case {
  const char* name;
  Shape x, weight, y, stride, padding, dilation;
};

const Case kCases[] = {
    {"plain", {8, 64, 28, 28}, {128, 64, 3, 3}, {8, 128, 28, 28}, {1, 1}, {1, 1}, {1, 1}},
    {"odd sizes", {2, 3, 7, 7}, {5, 3, 3, 3}, {2, 5, 5, 5}, {1, 1}, {0, 0}, {1, 1}},
    {"groups", {8, 64, 28, 28}, {64, 8, 3, 3}, {8, 64, 14, 14}, {2, 2}, {1, 1}, {1, 1}},
    {"depthwise", {8, 64, 28, 28}, {64, 1, 3, 3}, {8, 64, 28, 28}, {1, 1}, {2, 2}, {2, 2}},
    {"one dimension", {4, 16, 100}, {32, 16, 5}, {4, 32, 50}, {2}, {2}, {1}},
    {"three dimensions", {2, 16, 8, 8, 8}, {32, 16, 3, 3, 3}, {2, 32, 8, 8, 8}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
};

FusedOp described(const Case& c, FusedKind kind, DType dtype, bool channels_last) {
  FusedOp op;
  op.kind = kind;
  op.stride = c.stride;
  op.padding = c.padding;
  op.dilation = c.dilation;
  op.groups = c.x[1] / c.weight[1];
  const auto operand = [&](const Shape& sizes) {
    return FusedOperand{nullptr, dtype, sizes, channels_last ? channels_last_strides(sizes) : contiguous_strides(sizes),
                        true,    false};
  };
  const FusedOperand x = operand(c.x), weight = operand(c.weight), y = operand(c.y);
  switch (kind) {
    case FusedKind::convolution:
      op.operands[0] = x;
      op.operands[1] = weight;
      op.operands[3] = y;
      break;
    case FusedKind::convolution_input_gradient:
      op.operands[0] = y;
      op.operands[1] = weight;
      op.operands[2] = x;
      break;
    default:
      op.operands[0] = x;
      op.operands[1] = y;
      op.operands[2] = weight;
  }
  return op;
}

class Cudnn9 : public ::testing::Test {
 protected:
  Cudnn9() : card_(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, 0) {
    card_.set_all(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                  std::span<const char>(kH100.data(), kH100.size() + 1));  // with the terminating 0
    EXPECT_TRUE(card_.finalize());
  }

  std::optional<CudnnPlan> plan(const FusedOp& op, bool tf32 = false) {
    const std::optional<Convolution> convolution = describe_convolution(op);
    if (!convolution) return std::nullopt;
    std::optional<CudnnGraph> graph = make_convolution_graph(*convolution, nullptr, 0);
    if (!graph) return std::nullopt;
    return find_plan(*std::move(graph), {.properties = &card_}, {.dtype = convolution->dtype, .tf32 = tf32}, 0);
  }

  static bool has_note(const CudnnPlan& plan, cudnnBackendNumericalNote_t note) {
    CudnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR, 0);
    plan.configuration.get(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
    const auto notes =
        engine.get_all<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
    return std::ranges::count(notes, note) != 0;
  }

  CudnnDescriptor card_;
};

TEST_F(Cudnn9, MakesReadyAnEngineForEachConvolutionDTypeAndLayout) {
  for (const Case& c : kCases)
    for (const FusedKind kind : kKinds)
      for (const DType dtype : kDTypes)
        for (const bool channels_last : {true, false}) {
          SCOPED_TRACE(testing::Message()
                       << c.name << ", kind " << int(kind) << ", " << dtype << ", channels last: " << channels_last);
          const std::optional<CudnnPlan> found = plan(described(c, kind, dtype, channels_last));
          ASSERT_TRUE(found);
          EXPECT_FALSE(has_note(*found, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC));
          EXPECT_FALSE(has_note(*found, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION));
          EXPECT_GE(found->workspace_bytes, 0);
        }
}

TEST_F(Cudnn9, UsesTensorCoresForFloat32OnlyWithTf32) {
  for (const FusedKind kind : kKinds) {
    const FusedOp narrow = described(kCases[0], kind, kFloat16, true);
    const FusedOp wide = described(kCases[0], kind, kFloat32, true);
    EXPECT_TRUE(has_note(plan(narrow).value(), CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
    EXPECT_TRUE(has_note(plan(wide, true).value(), CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
    EXPECT_FALSE(has_note(plan(wide, false).value(), CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
  }
}

TEST_F(Cudnn9, RefusesSizesThatDoNotFit) {
  FusedOp op = described(kCases[0], FusedKind::convolution, kFloat32, true);
  op.operands[3].sizes[2] = 17;
  EXPECT_FALSE(plan(op));
}

TEST_F(Cudnn9, SaysWhichAttributeItRefuses) {
  CudnnDescriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, 3);
  try {
    tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, std::int64_t(1));
    FAIL() << "no error";
  } catch (const BackendError& error) {
    EXPECT_EQ(error.api, "cudnnBackendSetAttribute");
    EXPECT_EQ(error.device, "cuda:3");
    EXPECT_NE(std::string(error.what()).find("CUDNN_STATUS_BAD_PARAM"), std::string::npos) << error.what();
  }
}

TEST_F(Cudnn9, CannotBeSetUpWithoutADriver) {
  if (find_cuda_cards().count > 0) GTEST_SKIP() << "a driver answers here";
  IssueMutex issue_mutex;
  FusedPlans plans(3, 9, false, issue_mutex);
  for (int i = 0; i < 2; ++i) try {
      plans.workspace_size(described(kCases[0], FusedKind::convolution, kFloat32, true));
      FAIL() << "no error";
    } catch (const BackendError& error) {
      EXPECT_EQ(error.api, "cudnnCreate");
      EXPECT_EQ(error.device, "cuda:3");
    }
}

}  // namespace
}  // namespace lockstep::gpu
