// Convolutions of the CUDA backend on a fake cuDNN, which computes them on the host and checks the real one's rules:
// the calls, the layouts, and the choice of an engine.
#include <tuple>
#include <vector>

#include <lockstep/core/error.h>
#include <lockstep/tensor/creation.h>

#include "core/channels_last.h"
#include "cuda/fake_devices.h"
#include "ops/fused.h"
#include "tensor/tensor_impl.h"

namespace lockstep {
namespace {

constexpr int kCudnnNotSupported = 3000, kCudnnNotInitialized = 1001;

enum class Layout { row_major, channels_last, sliced, unaligned };

struct Case {
  const char* name;
  Shape x, weight, stride, padding, dilation;
  std::int64_t groups = 1;

  Shape result() const {
    Shape sizes{x[0], weight[0]};
    for (int i = 0; i < stride.rank(); ++i)
      sizes.push_back((x[i + 2] + 2 * padding[i] - dilation[i] * (weight[i + 2] - 1) - 1) / stride[i] + 1);
    return sizes;
  }
};

const Case kPlain{"plain", {2, 4, 5, 6}, {6, 4, 3, 2}, {1, 1}, {0, 0}, {1, 1}};
const Case kCases[] = {
    kPlain,
    {"strided", {2, 3, 7, 8}, {4, 3, 3, 3}, {2, 3}, {1, 2}, {1, 1}},
    {"dilated", {1, 2, 9, 7}, {3, 2, 3, 2}, {1, 1}, {2, 0}, {2, 3}},
    {"groups", {2, 6, 5, 5}, {4, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 2},
    {"depthwise", {1, 4, 6, 6}, {4, 1, 3, 3}, {2, 2}, {1, 1}, {1, 1}, 4},
    {"one dimension", {3, 4, 9}, {5, 4, 3}, {2}, {1}, {1}},
    {"three dimensions", {1, 2, 4, 3, 5}, {3, 2, 2, 2, 3}, {1, 2, 1}, {1, 0, 1}, {1, 1, 1}},
    {"one pixel", {2, 3, 1, 1}, {4, 3, 1, 1}, {1, 1}, {0, 0}, {1, 1}},
};

FusedOp described(const Case& c, FusedKind kind) {
  FusedOp op;
  op.kind = kind;
  op.name = "convolution";
  op.stride = c.stride;
  op.padding = c.padding;
  op.dilation = c.dilation;
  op.groups = c.groups;
  return op;
}

// Small integers, exact in every dtype and in any order of summation.
std::vector<double> numbers(const Shape& sizes, int seed) {
  std::vector<double> values(static_cast<std::size_t>(sizes.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = double((i * 7 + i / 5 + std::size_t(seed)) % 5) - 2;
  return values;
}

// A tensor on a device with these values in row-major order, stored in the given layout.
Tensor on_card(int device, const Shape& sizes, const std::vector<double>& values, DType dtype, Layout layout) {
  const Tensor dense = tensor(values).reshape(sizes).to(dtype).to(Device::cuda(device));
  const auto elements = sizes.elements();
  Tensor made = dense;
  if (layout == Layout::sliced) {
    Shape wide = sizes;
    wide[sizes.rank() - 1] *= 2;
    made = zeros(wide, {.dtype = dtype, .device = dense.device()}).slice(-1, 0, wide.back(), 2);
  } else if (layout == Layout::unaligned) {
    made = zeros({elements + 1}, {.dtype = dtype, .device = dense.device()}).slice(0, 1, elements + 1).view(sizes);
  } else if (layout == Layout::channels_last) {
    made = zeros(sizes, {.dtype = dtype, .device = dense.device()});
    made.impl()->strides = channels_last_strides(sizes);
    made.impl()->contiguous = false;
  }
  if (layout != Layout::row_major) made.copy_(dense);
  return made;
}

std::vector<double> values_of(const Tensor& x) { return x.contiguous().to("cpu").to(kFloat64).to_vector<double>(); }

// The definition of a convolution: each product has one element of x, of the weight and of y.
template <class Body>
void for_each_product(const Case& c, const Body& body) {
  const Shape y = c.result();
  const int spatial = c.stride.rank();
  const auto unravel = [](std::int64_t i, const Shape& sizes) {
    Shape index = sizes;
    for (int dim = sizes.rank() - 1; dim >= 0; --dim) {
      index[dim] = i % sizes[dim];
      i /= sizes[dim];
    }
    return index;
  };
  for (std::int64_t i = 0; i < y.elements(); ++i)
    for (std::int64_t j = 0; j < c.weight.elements(); ++j) {
      const Shape out = unravel(i, y), window = unravel(j, c.weight);
      if (window[0] != out[1]) continue;
      std::int64_t at = out[0] * c.x[1] + out[1] / (y[1] / c.groups) * c.weight[1] + window[1];
      bool inside = true;
      for (int dim = 0; dim < spatial; ++dim) {
        const std::int64_t place = out[dim + 2] * c.stride[dim] - c.padding[dim] + window[dim + 2] * c.dilation[dim];
        inside = inside && place >= 0 && place < c.x[dim + 2];
        at = at * c.x[dim + 2] + place;
      }
      if (inside) body(std::size_t(at), std::size_t(j), std::size_t(i));
    }
}

// Checks all three operations with operands in these layouts: x, weight, y.
void expect_right(const Case& c, DType dtype, Layout x_layout, Layout weight_layout, Layout y_layout, int device = 0) {
  SCOPED_TRACE(::testing::Message() << c.name << ", " << dtype << ", layouts " << int(x_layout) << int(weight_layout)
                                    << int(y_layout));
  const Shape sizes = c.result();
  const std::vector<double> x = numbers(c.x, 0), weight = numbers(c.weight, 2), g = numbers(sizes, 3);
  const std::vector<double> bias = numbers({c.weight[0]}, 1);
  std::vector<double> y(g.size()), dx(x.size()), dweight(weight.size());
  const std::size_t image = std::size_t(sizes.elements() / sizes[0] / sizes[1]);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = bias[i / image % bias.size()];
  for_each_product(c, [&](std::size_t at_x, std::size_t at_weight, std::size_t at_y) {
    y[at_y] += x[at_x] * weight[at_weight];
    dx[at_x] += g[at_y] * weight[at_weight];
    dweight[at_weight] += g[at_y] * x[at_x];
  });
  const auto make = [&](const Shape& shape, const std::vector<double>& values, Layout layout) {
    return on_card(device, shape, values, dtype, layout);
  };
  const auto unwritten = [](const std::vector<double>& values) { return std::vector<double>(values.size(), -99); };
  const Tensor a = make(c.x, x, x_layout), w = make(c.weight, weight, weight_layout),
               b = make({c.weight[0]}, bias, Layout::row_major);
  const Tensor upstream = make(sizes, g, y_layout);

  const Tensor result = make(sizes, unwritten(y), y_layout);
  ASSERT_TRUE(run_fused(described(c, FusedKind::convolution), {{a}, {w}, {b}, {result, true}}));
  EXPECT_EQ(values_of(result), y);
  const Tensor image_gradient = make(c.x, unwritten(x), x_layout);
  ASSERT_TRUE(
      run_fused(described(c, FusedKind::convolution_input_gradient), {{upstream}, {w}, {image_gradient, true}}));
  EXPECT_EQ(values_of(image_gradient), dx);
  const Tensor weight_gradient = make(c.weight, unwritten(weight), weight_layout);
  ASSERT_TRUE(
      run_fused(described(c, FusedKind::convolution_weight_gradient), {{a}, {upstream}, {weight_gradient, true}}));
  EXPECT_EQ(values_of(weight_gradient), dweight);
}

// Runs the plain case forward; returns true if it ran as a fused operation.
bool run_plain(DType dtype = kFloat32, Layout x_layout = Layout::row_major, Layout y_layout = Layout::row_major) {
  const Case& c = kPlain;
  const Tensor x = on_card(0, c.x, numbers(c.x, 0), dtype, x_layout);
  const Tensor weight = on_card(0, c.weight, numbers(c.weight, 0), dtype, Layout::row_major);
  const Tensor y = on_card(0, c.result(), numbers(c.result(), 0), dtype, y_layout);
  const bool done = run_fused(described(c, FusedKind::convolution), {{x}, {weight}, {Tensor()}, {y, true}});
  values_of(y);  // waits
  return done;
}

TEST(CudnnConvolution, GivesTheSumsOfItsDefinitionAndTheirGradients) {
  const FakeDevices devices({.cards = {0}});
  for (const Case& c : kCases)
    for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64})
      expect_right(c, dtype, Layout::row_major, Layout::row_major, Layout::row_major);
}

TEST(CudnnConvolution, TakesEachOperandInAnyLayout) {
  const FakeDevices devices({.cards = {0}});
  constexpr std::array kLayouts{Layout::row_major, Layout::channels_last, Layout::sliced, Layout::unaligned};
  for (const Layout x : kLayouts)
    for (const Layout weight : kLayouts)
      for (const Layout y : kLayouts) expect_right(kCases[3], kFloat32, x, weight, y);
  expect_right(kPlain, kFloat16, Layout::channels_last, Layout::unaligned, Layout::channels_last);
}

// The gradient of a sum is one expanded number.
TEST(CudnnConvolution, TakesOperandsThatAreExpanded) {
  const FakeDevices devices({.cards = {0}});
  const Case& c = kPlain;
  const Tensor weight = on_card(0, c.weight, numbers(c.weight, 0), kFloat32, Layout::row_major);
  const Tensor one = on_card(0, {1, 1, 1, 1}, {2}, kFloat32, Layout::row_major);
  const Tensor g = one.expand(c.result()), dense = g.contiguous();
  const auto gradient = [&](const Tensor& upstream) {
    const Tensor x = on_card(0, c.x, numbers(c.x, 0), kFloat32, Layout::row_major);
    EXPECT_TRUE(run_fused(described(c, FusedKind::convolution_input_gradient), {{upstream}, {weight}, {x, true}}));
    return values_of(x);
  };
  EXPECT_EQ(gradient(g), gradient(dense));
}

TEST(CudnnConvolution, IsChannelsLastWhereAnImageIs) {
  const FakeDevices devices({.cards = {0}});
  constexpr int kAll = 7;
  for (const auto& [x, y, layouts] : {std::tuple{Layout::row_major, Layout::row_major, 0},
                                      {Layout::channels_last, Layout::row_major, kAll},
                                      {Layout::row_major, Layout::channels_last, kAll}}) {
    ASSERT_TRUE(run_plain(kFloat32, x, y));
    EXPECT_EQ(machine().cudnn_layouts, layouts);
  }
}

TEST(CudnnConvolution, IsDoneByAnEngineThatIsDeterministicAndRoundsNothing) {
  const FakeDevices devices({.cards = {0}});
  ASSERT_TRUE(run_plain(kFloat32));
  EXPECT_EQ(machine().cudnn_engine, 3);
}

TEST(CudnnConvolution, UsesTensorCoresForFloat32OnlyWithTf32) {
  {
    const FakeDevices devices({.cards = {0}, .tf32 = true});
    ASSERT_TRUE(run_plain(kFloat32));
    EXPECT_EQ(machine().cudnn_engine, 1);
  }
  const FakeDevices devices({.cards = {0}});
  for (const auto& [dtype, engine] : {std::pair{kFloat32, 3}, {kFloat16, 1}, {kBFloat16, 1}, {kFloat64, 1}}) {
    ASSERT_TRUE(run_plain(dtype));
    EXPECT_EQ(machine().cudnn_engine, engine) << dtype;
  }
}

TEST(CudnnConvolution, IsPlannedOnceForEachDescription) {
  const FakeDevices devices({.cards = {0, 1}});
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(run_plain());
  EXPECT_EQ(machine().cudnn_plans, 1);
  ASSERT_TRUE(run_plain(kFloat16));
  ASSERT_TRUE(run_plain(kFloat32, Layout::channels_last));
  EXPECT_EQ(machine().cudnn_plans, 3);
}

TEST(CudnnConvolution, IsDeclinedWithoutAnEngineThatKeepsTheRules) {
  const FakeDevices devices({.cards = {0}});
  machine().cudnn_engines = false;
  EXPECT_FALSE(run_plain());
  EXPECT_FALSE(run_plain());
  EXPECT_EQ(machine().cudnn_plans, 0);
}

TEST(CudnnConvolution, IsDeclinedWhereCudnnCannotBeLoaded) {
  const FakeDevices devices({.cards = {0}});
  machine().cudnn = false;
  EXPECT_FALSE(run_plain());
  machine().cudnn = true;
  EXPECT_FALSE(run_plain());  // cuDNN is not looked for again
}

TEST(CudnnConvolution, IsDeclinedOnACardThatCudnnDoesNotSupport) {
  const FakeDevices devices({.cards = {0}});
  machine().cudnn_create = kCudnnNotSupported;
  EXPECT_FALSE(run_plain());
}

TEST(CudnnConvolution, SaysWhyCudnnCannotWork) {
  const FakeDevices devices({.cards = {0}});
  machine().cudnn_create = kCudnnNotInitialized;
  for (int i = 0; i < 2; ++i) try {
      run_plain();
      FAIL() << "no error";
    } catch (const BackendError& error) {
      EXPECT_EQ(error.api, "cudnnCreate");
      EXPECT_EQ(error.code, kCudnnNotInitialized);
      EXPECT_EQ(error.device, "cuda:0");
      EXPECT_NE(std::string(error.what()).find("its last words"), std::string::npos);
    }
  machine().cudnn_create = 0;
  EXPECT_TRUE(run_plain());
}

TEST(CudnnConvolution, OfWhatCudnnHasNotIsDeclined) {
  const FakeDevices devices({.cards = {0}});
  Backend& backend = card(0).backend;
  FusedOp op = described(kPlain, FusedKind::convolution);
  const auto operand = [](const Shape& sizes, DType dtype) {
    return FusedOperand{nullptr, dtype, sizes, contiguous_strides(sizes), true, false};
  };
  op.operands[0] = operand(kPlain.x, kFloat32);
  op.operands[1] = operand(kPlain.weight, kFloat32);
  op.operands[3] = operand(kPlain.result(), kFloat32);
  EXPECT_TRUE(backend.workspace_size(0, op));

  FusedOp mixed = op;
  mixed.operands[1].dtype = kFloat16;
  FusedOp whole = op;
  for (FusedOperand& each : whole.operands) each.dtype = kInt32;
  FusedOp empty = op;
  empty.operands[0] = operand({0, 4, 5, 6}, kFloat32);
  empty.operands[3] = operand({0, 6, 3, 5}, kFloat32);
  FusedOp attention = op;
  attention.kind = FusedKind::attention;
  FusedOp does_not_fit = op;
  does_not_fit.operands[3] = operand({2, 6, 3, 4}, kFloat32);
  FusedOp biased = op;
  biased.operands[2] = operand({6}, kFloat64);
  for (const FusedOp* other : {&mixed, &whole, &empty, &attention, &does_not_fit, &biased})
    EXPECT_FALSE(backend.workspace_size(0, *other));
}

TEST(CudnnConvolution, RunsOnTheCardAndTheStreamOfItsTensors) {
  const FakeDevices devices({.cards = {0, 2, 2}});
  for (const int device : {2, 1, 0, 1})
    expect_right(kPlain, kFloat32, Layout::row_major, Layout::row_major, Layout::row_major, device);
}

// A call between the ranks of a collective must not wait for a card: cuDNN has loaded its kernels in an earlier run.
TEST(CudnnConvolution, WaitsForNoCardOnceItHasRun) {
  const FakeDevices devices({.cards = {0}});
  const auto run = [] {
    const Case& c = kPlain;
    const Tensor x = zeros(c.x, {.device = Device::cuda(0)}), w = zeros(c.weight, {.device = Device::cuda(0)});
    const Tensor y = zeros(c.result(), {.device = Device::cuda(0)});
    ASSERT_TRUE(run_fused(described(c, FusedKind::convolution), {{x}, {w}, {Tensor()}, {y, true}}));
  };
  run();
  card(0).backend.synchronize_stream(card(0).stream(0));
  machine().rank_waits = true;
  run();
  machine().rank_waits = false;
}

}  // namespace
}  // namespace lockstep
