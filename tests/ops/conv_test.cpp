// Convolutions: values against explicit sums, invariance to layouts and threads, and errors.
#include <lockstep/ops/conv.h>

#include <gtest/gtest.h>

#include <lockstep/autograd/autograd.h>
#include <lockstep/runtime/threads.h>

#include "ops/checks.h"
#include "support/test_devices.h"
#include "support/thrown.h"

namespace lockstep {
namespace {

using namespace testing;

double difference_of(const Tensor& a, const Tensor& b) {
  return max(abs(a.cpu().to(kFloat64) - b.cpu().to(kFloat64))).item<double>();
}

struct ConvNumbers {
  std::int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
};

// conv2d by its definition.
Tensor conv_by_sums(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvNumbers& n) {
  const Shape& s = x.sizes();
  const Shape& w = weight.sizes();
  const auto out = [&](int d) { return (s[d] + 2 * n.padding - n.dilation * (w[d] - 1) - 1) / n.stride + 1; };
  const std::int64_t rows = out(2), columns = out(3), each = w[0] / n.groups;
  const auto image = x.to_vector<double>(), factors = weight.to_vector<double>(), added = bias.to_vector<double>();
  std::vector<double> result;
  for (std::int64_t b = 0; b < s[0]; ++b)
    for (std::int64_t k = 0; k < w[0]; ++k)
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < columns; ++j) {
          double total = added[std::size_t(k)];
          for (std::int64_t c = 0; c < w[1]; ++c)
            for (std::int64_t u = 0; u < w[2]; ++u)
              for (std::int64_t v = 0; v < w[3]; ++v) {
                const std::int64_t row = i * n.stride - n.padding + u * n.dilation;
                const std::int64_t column = j * n.stride - n.padding + v * n.dilation;
                if (row < 0 || row >= s[2] || column < 0 || column >= s[3]) continue;
                const std::int64_t channel = k / each * w[1] + c;
                total += image[std::size_t(((b * s[1] + channel) * s[2] + row) * s[3] + column)] *
                         factors[std::size_t(((k * w[1] + c) * w[2] + u) * w[3] + v)];
              }
          result.push_back(total);
        }
  return doubles(result, {s[0], w[0], rows, columns});
}

class Conv2dBy : public ::testing::TestWithParam<ConvNumbers> {};

TEST_P(Conv2dBy, IsASumOverEachWindow) {
  const TestDevices devices(1);
  const ConvNumbers n = GetParam();
  const Tensor x = random_doubles({3, 8, 7, 6}), weight = random_doubles({12, 8 / n.groups, 3, 2}),
               bias = random_doubles({12});
  const Tensor expected = conv_by_sums(x, weight, bias, n);
  const ConvOptions options = {.stride = n.stride, .padding = n.padding, .dilation = n.dilation, .groups = n.groups};
  for (const Device& device : {Device(), Device("cuda:0")})
    for (const DType dtype : {kFloat64, kFloat32, kBFloat16}) {
      const auto at = [&](const Tensor& t) { return t.to(device, dtype); };
      const Tensor y = conv2d(at(x), at(weight), at(bias), options);
      EXPECT_EQ(y.dtype(), dtype);
      EXPECT_EQ(y.sizes(), expected.sizes());
      const double tolerance = dtype == kFloat64 ? 1e-12 : dtype == kFloat32 ? 1e-4 : 0.5;
      EXPECT_LT(difference_of(y, expected), tolerance) << device << ' ' << dtype;
    }
}

// The float32 gradients of the device's library against the composed ones in float64.
TEST_P(Conv2dBy, HasTheGradientsOfTheComposition) {
  const TestDevices devices(1);
  const ConvNumbers n = GetParam();
  const Tensor x = random_doubles({3, 8, 7, 6}), weight = random_doubles({12, 8 / n.groups, 3, 2}),
               bias = random_doubles({12});
  const ConvOptions options = {.stride = n.stride, .padding = n.padding, .dilation = n.dilation, .groups = n.groups};
  const auto gradients_at = [&](const Device& device, DType dtype) {
    std::vector<Tensor> inputs;
    for (const Tensor& t : {x, weight, bias}) inputs.push_back(t.to(device, dtype).detach().requires_grad_());
    const Tensor y = conv2d(inputs[0], inputs[1], inputs[2], options);
    sum(square(y)).backward();
    return std::vector{inputs[0].grad(), inputs[1].grad(), inputs[2].grad()};
  };
  const auto expected = gradients_at({}, kFloat64);
  for (const Device& device : {Device(), Device("cuda:0")}) {
    const auto got = gradients_at(device, kFloat32);
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_LT(difference_of(got[i], expected[i]), 2e-6 * max(abs(expected[i])).item<double>() + 1e-5) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(, Conv2dBy,
                         ::testing::Values(ConvNumbers{}, ConvNumbers{.stride = 2, .padding = 1},
                                           ConvNumbers{.dilation = 2}, ConvNumbers{.padding = 2, .groups = 2},
                                           ConvNumbers{.padding = 1, .groups = 4},
                                           ConvNumbers{.stride = 3, .padding = 2, .dilation = 2, .groups = 2}),
                         [](const auto& numbers) {
                           const ConvNumbers& n = numbers.param;
                           return "Stride" + std::to_string(n.stride) + "Padding" + std::to_string(n.padding) +
                                  "Dilation" + std::to_string(n.dilation) + "Groups" + std::to_string(n.groups);
                         });

TEST(ConvPadding, SameKeepsTheSize) {
  const Tensor x = random_doubles({1, 2, 5, 6}), even = random_doubles({3, 2, 4, 3});
  const Tensor y = conv2d(x, even, {}, {.padding = Padding::same});
  EXPECT_EQ(y.sizes(), (Shape{1, 3, 5, 6}));
  // An odd padding has one more zero behind, as in PyTorch.
  EXPECT_LT(difference_of(y, conv2d(pad(x, {1, 1, 1, 2}), even)), 1e-12);
  EXPECT_EQ(conv2d(x, even, {}, {.padding = Padding::valid}).sizes(), (Shape{1, 3, 2, 4}));
  EXPECT_EQ(thrown<InvalidArgument>([&] { conv2d(x, even, {}, {.stride = 2, .padding = Padding::same}); }),
            "[conv2d] expected a stride of 1 for Padding::same, got [2, 2]");
}

TEST(ConvBatch, MayBeLeftOutOrEmpty) {
  const Tensor x = random_doubles({2, 5}), weight = random_doubles({3, 2, 2}), bias = random_doubles({3});
  EXPECT_LT(difference_of(conv1d(x, weight, bias), conv1d(x.unsqueeze(0), weight, bias)[0]), 1e-15);
  EXPECT_EQ(conv1d(zeros({0, 2, 5}, {.dtype = kFloat64}), weight, bias).sizes(), (Shape{0, 3, 4}));
  const Tensor empty = zeros({0, 2, 5}).requires_grad_(), w = zeros({3, 2, 2}).requires_grad_();
  sum(conv1d(empty, w)).backward();
  EXPECT_EQ(empty.grad().sizes(), (Shape{0, 2, 5}));
  expect_values(w.grad(), std::vector<double>(12, 0));
}

TEST(ConvTranspose, IsTheTransposeOfConv) {
  // <conv(x), y> == <x, conv_transpose(y)> for every x and y.
  const Tensor x = random_doubles({2, 4, 7, 6}), weight = random_doubles({6, 2, 3, 2}),
               y = random_doubles({2, 6, 3, 5});
  const Tensor there = conv2d(x, weight, {}, {.stride = {2, 1}, .groups = 2});
  const Tensor back = conv_transpose2d(y, weight, {}, {.stride = {2, 1}, .groups = 2});
  ASSERT_EQ(there.sizes(), y.sizes());
  ASSERT_EQ(back.sizes(), x.sizes());
  EXPECT_NEAR(sum(there * y).item<double>(), sum(x * back).item<double>(), 1e-10);
}

TEST(ConvTranspose, AddsOutputPaddingBehind) {
  const Tensor x = random_doubles({1, 1, 3}), weight = random_doubles({1, 1, 2});
  const Tensor less = conv_transpose1d(x, weight, {}, {.stride = 3});
  const Tensor more = conv_transpose1d(x, weight, {}, {.stride = 3, .output_padding = 2});
  EXPECT_EQ(less.sizes(), (Shape{1, 1, 8}));
  EXPECT_LT(difference_of(more, pad(less, {0, 2})), 1e-15);
  EXPECT_EQ(thrown<InvalidArgument>([&] { conv_transpose1d(x, weight, {}, {.stride = 3, .output_padding = 3}); }),
            "[conv_transpose1d] expected output_padding below the stride or the dilation, got [3] for stride [3] and "
            "dilation [1]");
}

TEST(ConvLayout, OfTheInputChangesNoValue) {
  const Tensor x = random_doubles({4, 8, 6, 5}).to(kFloat32), weight = random_doubles({8, 8, 3, 3}).to(kFloat32);
  const Tensor expected = conv2d(x, weight).contiguous();
  const Tensor last = x.permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2});
  Tensor gaps = zeros({4, 16, 6, 11}).slice(1, 0, 16, 2).slice(3, 1, 11, 2);
  gaps.copy_(x);
  for (const Tensor& same : {last, gaps})
    EXPECT_EQ(conv2d(same, weight).contiguous().to_vector<float>(), expected.to_vector<float>());
}

// Enough images for several pieces of unequal size.
TEST(ConvThreads, DoNotChangeABit) {
  const Tensor x = random_doubles({37, 64, 12, 12}), weight = random_doubles({64, 64, 3, 3});
  const auto results = [&](int threads, DType dtype) {
    const int before = num_threads();
    set_num_threads(threads);
    const Tensor p = x.to(dtype).detach().requires_grad_(), q = weight.to(dtype).detach().requires_grad_();
    const Tensor y = conv2d(p, q);
    sum(y * y).backward();
    set_num_threads(before);
    return std::vector{y.detach().contiguous(), p.grad().contiguous(), q.grad().contiguous()};
  };
  const auto one = results(1, kFloat32), three = results(3, kFloat32), exact = results(3, kFloat64);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(one[i].to_vector<float>(), three[i].to_vector<float>()) << i;
    EXPECT_LT(difference_of(one[i], exact[i]), 1e-5 * max(abs(exact[i])).item<double>()) << i;
  }
}

TEST(Conv2dErrors, NameWhatWasExpected) {
  const Tensor x = zeros({1, 4, 5, 5}), weight = zeros({6, 4, 3, 3});
  EXPECT_EQ(thrown<ShapeError>([&] {
              conv2d(x, zeros({6, 3, 3, 3}));
            }),
            "[conv2d] expected x of 3 channels, [batch, channels, ...], for a weight [6, 3, 3, 3], got [1, 4, 5, 5]: "
            "make the layer with in_channels = 4, or give x 3 channels");
  EXPECT_EQ(thrown<ShapeError>([&] {
              conv2d(zeros({2, 5, 5, 4}), weight);
            }),
            "[conv2d] expected x of 4 channels, [batch, channels, ...], for a weight [6, 4, 3, 3], got [2, 5, 5, 4]: "
            "its channels come last; movedim(x, -1, 1) brings them behind the batch");
  EXPECT_EQ(thrown<ShapeError>([&] {
              conv2d(x, zeros({6, 3, 3, 3}), {}, {.groups = 2});
            }),
            "[conv2d] expected x of 6 channels, [batch, channels, ...], for a weight [6, 3, 3, 3] and 2 groups, got "
            "[1, 4, 5, 5]: make the layer with in_channels = 4, or give x 6 channels");
  EXPECT_EQ(
      thrown<ShapeError>([&] {
        conv2d(zeros({3, 5, 5}), zeros({6, 1, 3, 3}));
      }),
      "[conv2d] expected x of 1 channels, [channels, ...], for a weight [6, 1, 3, 3], got [3, 5, 5]: make the layer "
      "with in_channels = 3, or give x 1 channel");
  EXPECT_EQ(thrown<ShapeError>([&] {
              conv2d(x, zeros({5, 2, 3, 3}), {}, {.groups = 2});
            }),
            "[conv2d] expected a weight [out channels, channels / groups, ...] whose first size is a multiple of the "
            "groups, got [5, 2, 3, 3] for 2 groups");
  EXPECT_EQ(thrown<ShapeError>([&] {
              conv_transpose2d(x, zeros({3, 6, 3, 3}));
            }),
            "[conv_transpose2d] expected x of 3 channels, [batch, channels, ...], for a weight [3, 6, 3, 3], got "
            "[1, 4, 5, 5]: make the layer with in_channels = 4, or give x 3 channels");
  EXPECT_EQ(thrown<ShapeError>([&] { conv1d(x, weight); }),
            "[conv1d] expected x of 3 dimensions (or 2 without a batch) and a weight of 3, got [1, 4, 5, 5] and [6, 4, "
            "3, 3]");
  EXPECT_EQ(thrown<ShapeError>([&] { conv2d(x, weight, zeros({5})); }),
            "[conv2d] expected a bias of shape [6], got [5]");
  EXPECT_EQ(thrown<ShapeError>([&] { conv2d(x, weight, {}, {.dilation = 3}); }),
            "[conv2d] expected a window that fits the padded x, got a weight [6, 4, 3, 3] with dilation [3, 3] for x "
            "[1, 4, 5, 5] with padding [0, 0]");
  EXPECT_EQ(thrown<InvalidArgument>([&] { conv2d(x, weight, {}, {.groups = 0}); }),
            "[conv2d] expected groups of at least 1, got 0");
  EXPECT_EQ(thrown<InvalidArgument>([&] { conv2d(x, weight, {}, {.stride = 0}); }),
            "[conv2d] expected stride of at least 1, got 0");
  EXPECT_THROW(conv2d(x, zeros({6, 4, 3, 3}, {.dtype = kFloat64})), DTypeError);
  EXPECT_THROW(conv2d(x.to(kInt64), weight.to(kInt64)), DTypeError);
  const TestDevices devices(1);
  EXPECT_THROW(conv2d(x, weight.cuda()), DeviceMismatch);
}

struct AddedBehind {
  int dims;
  ConvTransposeOptions options;
  std::vector<double> y, x_gradient, weight_gradient, bias_gradient;
};

// Values from PyTorch 2.15.
const std::vector<AddedBehind> kAddedBehind = {
    {1,
     {.stride = 1, .output_padding = 1, .dilation = 2},
     {15.25, 16.75, 24.75, 18.5, 20.5, 10, 27.75, 30.25, 41.75, 32, 35, 20},
     {16, 18.5, 21, 36, 42.5, 49},
     {14, 26, 50, 62, 32, 62, 122, 152},
     {21, 57}},
    {1,
     {.stride = 1, .padding = 1, .output_padding = 2, .dilation = 3},
     {16.75, 18.25, 16.5, 18.5, 20.5, 10, 30.25, 32.75, 29, 32, 35, 20},
     {10.5, 17.5, 20, 22.5, 39.5, 46},
     {8, 26, 38, 62, 17, 62, 83, 152},
     {21, 57}},
    {1,
     {.stride = 2, .padding = 1, .output_padding = 2, .dilation = 3},
     {10, 16.75, 16.5, 18.25, 18.5, 10, 20.5, 10, 20, 30.25, 29, 32.75, 32, 20, 35, 20},
     {12.5, 23.5, 28.5, 26.5, 53.5, 66.5},
     {16, 34, 56, 82, 34, 79, 122, 199},
     {36, 100}},
    {2,
     {.stride = {1, 2}, .padding = {1, 0}, .output_padding = {2, 1}, .dilation = {3, 2}},
     {33.5, 10, 63,  10, 68.5,  10, 43,  10, 10,    10, 10, 10, 10, 10, 10, 10, 30, 10, 55.5, 10,
      63,   10, 40,  10, 40.5,  10, 78,  10, 85.5,  10, 52, 10, 10, 10, 10, 10, 10, 10, 10,   10,
      57.5, 20, 103, 20, 112.5, 20, 71,  20, 20,    20, 20, 20, 20, 20, 20, 20, 48, 20, 83.5, 20,
      95,   20, 62,  20, 64.5,  20, 118, 20, 129.5, 20, 80, 20, 20, 20, 20, 20, 20, 20, 20,   20},
     {249.5, 260.5, 271.5, 411, 429, 447, 553.5, 580.5, 607.5, 955, 1005, 1055},
     {49, 79, 527, 569, 649, 679, 1367, 1409, 103, 169, 1355, 1469, 1423, 1489, 3635, 3749},
     {820, 2420}},
};

TEST(ConvTranspose, TakesMoreOutputPaddingThanStride) {
  const TestDevices devices(1);
  for (const Device device : {Device("cpu"), Device("cuda:0")})
    for (const DType dtype : {kFloat32, kFloat64})
      for (const AddedBehind& c : kAddedBehind) {
        const auto counted = [&](const Shape& sizes, double step) {
          return (arange(1, double(sizes.elements() + 1), 1, {.dtype = dtype, .device = device}).view(sizes) * step)
              .detach()
              .requires_grad_();
        };
        const Tensor x = counted(c.dims == 1 ? Shape{1, 2, 3} : Shape{1, 2, 2, 3}, 1),
                     w = counted(c.dims == 1 ? Shape{2, 2, 2} : Shape{2, 2, 2, 2}, 0.25), b = counted({2}, 10);
        const Tensor y = (c.dims == 1 ? conv_transpose1d : conv_transpose2d)(x, w, b, c.options);
        EXPECT_EQ(values(y), c.y);
        const Tensor seed = counted(y.sizes(), 1).detach();
        const std::vector<Tensor> gradient = gradients({y}, {x, w, b}, std::span(&seed, 1), {.retain_graph = true});
        EXPECT_EQ(gradient[0].sizes(), x.sizes());
        EXPECT_EQ(values(gradient[0]), c.x_gradient);
        EXPECT_EQ(values(gradient[1]), c.weight_gradient);
        EXPECT_EQ(values(gradient[2]), c.bias_gradient);
        y.backward(seed);
        EXPECT_EQ(values(x.grad()), c.x_gradient);
      }
}

TEST(ConvTranspose, HasSecondGradientsWithMoreOutputPaddingThanStride) {
  const auto f = [](const std::vector<Tensor>& in) {
    return conv_transpose2d(in[0], in[1], in[2],
                            {.stride = {1, 2}, .padding = {2, 1}, .output_padding = 2, .dilation = 3});
  };
  expect_gradients(f, {random_doubles({2, 2, 3, 2}), random_doubles({2, 2, 2, 2}), random_doubles({2})});
}

}  // namespace
}  // namespace lockstep
