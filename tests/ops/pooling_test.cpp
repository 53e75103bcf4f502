// Pooling against loops over the definition of windows, in every memory layout, on the CPU and on devices.
#include <lockstep/ops/pooling.h>

#include <functional>

#include "core/channels_last.h"
#include "ops/all_ops.h"
#include "ops/checks.h"
#include "support/test_devices.h"

namespace lockstep {
namespace {

using namespace testing;

using Numbers = std::vector<std::int64_t>;

// Has three spatial dimensions; a case with fewer has leading dimensions of size 1.
struct Case {
  const char* name;
  int dims;
  Shape sizes;  // [N, C, spatial...]
  Numbers kernel, stride, padding, dilation;
  bool ceil_mode = false;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

const std::vector<Case> kCases = {
    {"Halves", 2, {2, 3, 6, 8}, {1, 2, 2}, {1, 2, 2}, {0, 0, 0}, {1, 1, 1}},
    {"HalvesOfOddSizes", 2, {2, 3, 5, 7}, {1, 2, 2}, {1, 2, 2}, {0, 0, 0}, {1, 1, 1}},
    {"Ceil", 2, {2, 3, 5, 7}, {1, 2, 2}, {1, 2, 2}, {0, 0, 0}, {1, 1, 1}, true},
    {"Overlapping", 2, {1, 4, 7, 9}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}},
    {"OverlappingByOne", 2, {1, 2, 9, 40}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}, {1, 1, 1}, true},
    {"Gaps", 2, {1, 70, 9, 8}, {1, 2, 3}, {1, 4, 5}, {0, 1, 0}, {1, 1, 1}},
    {"Dilated", 2, {2, 2, 9, 10}, {1, 3, 2}, {1, 2, 1}, {0, 1, 1}, {1, 2, 3}},
    {"Line", 1, {2, 3, 11}, {1, 1, 4}, {1, 1, 3}, {0, 0, 2}, {1, 1, 1}},
    {"Volume", 3, {2, 2, 4, 5, 6}, {2, 3, 2}, {2, 1, 2}, {1, 1, 0}, {1, 1, 1}},
    {"VolumeCeil", 3, {1, 3, 5, 4, 7}, {3, 2, 2}, {2, 2, 3}, {1, 0, 1}, {1, 1, 1}, true},
};

// The documented output size: floor or ceil of the steps, without windows that start behind the input.
std::int64_t windows_along(const Case& c, std::size_t d, std::int64_t in) {
  const double steps = double(in + 2 * c.padding[d] - c.dilation[d] * (c.kernel[d] - 1) - 1) / double(c.stride[d]);
  const auto count = std::int64_t(c.ceil_mode ? std::ceil(steps) : std::floor(steps)) + 1;
  return c.ceil_mode && (count - 1) * c.stride[d] >= in + c.padding[d] ? count - 1 : count;
}

// The elements of a window as (index in the image, value), and its size with padding.
struct Window {
  std::vector<std::pair<std::int64_t, double>> elements;
  std::int64_t padded_size = 1;
};

// Calls visit(window) for each output of row-major x, in order.
Shape for_each_window(const Case& c, const Tensor& x, const std::function<void(const Window&)>& visit) {
  const std::vector<double> all = values(x);
  Numbers in(3, 1), out(3, 1);
  for (int d = 0; d < c.dims; ++d) in[std::size_t(3 - c.dims + d)] = x.size(d + 2);
  for (std::size_t d = 0; d < 3; ++d) out[d] = windows_along(c, d, in[d]);
  const std::int64_t image = in[0] * in[1] * in[2];
  for (std::int64_t p = 0; p < x.numel() / image; ++p)
    for (std::int64_t o = 0; o < out[0] * out[1] * out[2]; ++o) {
      const std::int64_t at[3] = {o / out[2] / out[1], o / out[2] % out[1], o % out[2]};
      Window window;
      for (std::size_t d = 0; d < 3; ++d) {
        const std::int64_t start = at[d] * c.stride[d] - c.padding[d];
        window.padded_size *= std::min(start + c.kernel[d], in[d] + c.padding[d]) - start;
      }
      for (std::int64_t k = 0; k < c.kernel[0] * c.kernel[1] * c.kernel[2]; ++k) {
        const std::int64_t tap[3] = {k / c.kernel[2] / c.kernel[1], k / c.kernel[2] % c.kernel[1], k % c.kernel[2]};
        std::int64_t place = 0;
        bool inside = true;
        for (std::size_t d = 0; d < 3; ++d) {
          const std::int64_t i = at[d] * c.stride[d] - c.padding[d] + tap[d] * c.dilation[d];
          inside &= i >= 0 && i < in[d];
          place = place * in[d] + i;
        }
        if (inside) window.elements.emplace_back(place, all[std::size_t(p * image + place)]);
      }
      visit(window);
    }
  Shape sizes = {x.size(0), x.size(1)};
  for (int d = 0; d < c.dims; ++d) sizes.push_back(out[std::size_t(3 - c.dims + d)]);
  return sizes;
}

Shape last(const Numbers& three, int dims) { return Shape(std::span(three).last(std::size_t(dims))); }

Tensor channels_last(const Tensor& x) {
  Shape to_last = {0}, back = {0, x.dim() - 1};
  for (int d = 2; d < x.dim(); ++d) {
    to_last.push_back(d);
    back.push_back(d - 1);
  }
  to_last.push_back(1);
  return x.permute(to_last).contiguous().permute(back);
}

Tensor spread(const Tensor& x) { return stack({x, x}, x.dim()).select(x.dim(), 1); }

class Pooling : public ::testing::TestWithParam<Case> {
 protected:
  // Expects `expected`, within the tolerance, from f of x in all layouts and on both devices.
  void expect_everywhere(const std::function<Tensor(const Tensor&)>& f, const Tensor& x, const Shape& sizes,
                         const std::vector<double>& expected, double tolerance = 1e-12) const {
    for (const Tensor& place : {x, x.cuda()})
      for (const Tensor& laid_out : {place, channels_last(place), spread(place)}) {
        const Tensor got = f(laid_out);
        ASSERT_EQ(got.sizes(), sizes);
        const std::vector<double> actual = values(got);
        for (std::size_t i = 0; i < expected.size(); ++i)
          ASSERT_NEAR(actual[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << "element " << i;
      }
  }

  MaxPoolOptions max_options() const {
    return {.stride = last(c.stride, c.dims),
            .padding = last(c.padding, c.dims),
            .dilation = last(c.dilation, c.dims),
            .ceil_mode = c.ceil_mode};
  }
  ValuesAndIndices max_pool(const Tensor& x) const {
    const auto f = c.dims == 1   ? max_pool1d_with_indices
                   : c.dims == 2 ? max_pool2d_with_indices
                                 : max_pool3d_with_indices;
    return f(x, last(c.kernel, c.dims), max_options());
  }
  Tensor max_pool_alone(const Tensor& x) const {
    return (c.dims == 1 ? max_pool1d : c.dims == 2 ? max_pool2d : max_pool3d)(x, last(c.kernel, c.dims), max_options());
  }
  Tensor avg_pool(const Tensor& x, AvgPoolOptions options) const {
    options.stride = last(c.stride, c.dims);
    options.padding = last(c.padding, c.dims);
    options.ceil_mode = c.ceil_mode;
    return (c.dims == 1 ? avg_pool1d : c.dims == 2 ? avg_pool2d : avg_pool3d)(x, last(c.kernel, c.dims), options);
  }

  const Case c = GetParam();
  const TestDevices devices{1};
};

INSTANTIATE_TEST_SUITE_P(, Pooling, ::testing::ValuesIn(kCases),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_P(Pooling, GivesTheGreatestAndItsPlace) {
  // Few distinct values, so that many are equal: the first one counts.
  for (const Tensor& x : {randn(c.sizes, {.dtype = kFloat64}), randint(0, 4, c.sizes).to(kFloat64)}) {
    std::vector<double> greatest, places, gradient(std::size_t(x.numel()));
    std::int64_t outputs = 0;
    const Shape sizes = for_each_window(c, x, [&](const Window& window) {
      const auto best = std::max_element(window.elements.begin(), window.elements.end(),
                                         [](const auto& a, const auto& b) { return a.second < b.second; });
      greatest.push_back(best->second);
      places.push_back(double(best->first));
    });
    Shape image = {1};
    for (int d = 2; d < x.dim(); ++d) image[0] *= x.size(d);
    const std::int64_t per_image = std::int64_t(places.size()) / (x.size(0) * x.size(1));
    for (const double place : places) {
      gradient[std::size_t(outputs / per_image * image[0] + std::int64_t(place))] += double(outputs + 1);
      ++outputs;
    }
    expect_everywhere([&](const Tensor& v) { return max_pool(v).values; }, x, sizes, greatest, 0);
    expect_everywhere([&](const Tensor& v) { return max_pool_alone(v); }, x, sizes, greatest, 0);
    expect_everywhere([&](const Tensor& v) { return max_pool(v).indices; }, x, sizes, places, 0);
    const auto pooled = [&](const Tensor& v) { return max_pool_alone(v); };
    expect_everywhere([&](const Tensor& v) { return weighted_gradient(pooled, v); }, x, x.sizes(), gradient, 0);
  }
}

TEST_P(Pooling, OfIntegersAndNarrowFloats) {
  const Tensor x = randint(0, 200, c.sizes);
  std::vector<double> greatest;
  const Shape sizes = for_each_window(c, x, [&](const Window& window) {
    double best = 0;
    for (const auto& [place, value] : window.elements) best = std::max(best, value);
    greatest.push_back(best);
  });
  for (const DType dtype : {kUInt8, kInt32, kInt64, kFloat16, kBFloat16, kFloat32})
    expect_everywhere([&](const Tensor& v) { return max_pool_alone(v); }, x.to(dtype), sizes, greatest, 0);
}

TEST_P(Pooling, GivesMeans) {
  if (c.dilation != Numbers{1, 1, 1}) return;
  const Tensor x = randn(c.sizes, {.dtype = kFloat64});
  std::vector<double> with_padding, inside, by_seven;
  const Shape sizes = for_each_window(c, x, [&](const Window& window) {
    double sum = 0;
    for (const auto& [place, value] : window.elements) sum += value;
    with_padding.push_back(sum / double(window.padded_size));
    inside.push_back(sum / double(window.elements.size()));
    by_seven.push_back(sum / -7);
  });
  expect_everywhere([&](const Tensor& v) { return avg_pool(v, {}); }, x, sizes, with_padding);
  expect_everywhere([&](const Tensor& v) { return avg_pool(v, {.count_include_pad = false}); }, x, sizes, inside);
  expect_everywhere([&](const Tensor& v) { return avg_pool(v, {.divisor_override = -7}); }, x, sizes, by_seven);
  std::vector<double> rounded;
  const Tensor narrow = x.to(kFloat16);
  for_each_window(c, narrow, [&](const Window& window) {
    double sum = 0;
    for (const auto& [place, value] : window.elements) sum += value;
    rounded.push_back(sum / double(window.padded_size));
  });
  expect_everywhere([&](const Tensor& v) { return avg_pool(v, {}); }, narrow, sizes, rounded, 1e-3);
}

// The gradient of a sum over windows is its transpose: <f(x), g> = <x, f'(g)>, the same on every device.
TEST_P(Pooling, GradientsAreAdjoint) {
  const Tensor x = randn(c.sizes, {.dtype = kFloat64});
  const auto pooled = [&](const Tensor& v) { return avg_pool(v, {.count_include_pad = false}); };
  if (c.dilation != Numbers{1, 1, 1}) return;
  for (const Tensor& place : {x, x.cuda()})
    for (const Tensor& v : {place, channels_last(place), spread(place)}) {
      const Tensor y = pooled(v);
      const Tensor weights = arange(1, double(y.numel() + 1), 1, {.dtype = kFloat64, .device = y.device()});
      const double forward = sum(y.reshape({y.numel()}) * weights).item<double>();
      const double backward = sum(weighted_gradient(pooled, v) * v).item<double>();
      EXPECT_NEAR(forward, backward, 1e-9 * (1 + std::abs(forward)));
    }
}

TEST_P(Pooling, KeepsTheLayout) {
  const Tensor x = channels_last(randn(c.sizes, {.requires_grad = true}));
  const Tensor y = max_pool_alone(x);
  EXPECT_TRUE(is_channels_last(y.sizes(), y.strides()));
  EXPECT_TRUE(max_pool_alone(x.contiguous()).is_contiguous());
}

TEST_P(Pooling, TakesOneImageWithoutABatch) {
  const Tensor x = randn(c.sizes, {.dtype = kFloat64});
  EXPECT_EQ(values(max_pool(x[0]).values), values(max_pool(x).values[0]));
  EXPECT_EQ(max_pool(x[0]).indices.sizes(), max_pool(x).indices[0].sizes());
  if (c.dilation == Numbers{1, 1, 1}) {
    EXPECT_EQ(values(avg_pool(x[0], {})), values(avg_pool(x, {})[0]));
  }
}

// If windows do not overlap, unpooling restores the elements that pooling kept.
TEST(MaxUnpool, PutsBackWhatPoolingTook) {
  const TestDevices devices(1);
  const Tensor x = tensor({1., 5., 2., 3., 4., 0., 9., 8.}).view({1, 1, 2, 4});
  for (const Tensor& place : {x, x.cuda()}) {
    const auto [pooled, indices] = max_pool2d_with_indices(place, 2);
    expect_values(max_unpool2d(pooled, indices, 2), {0, 5, 0, 0, 0, 0, 9, 0});
    expect_values(max_unpool2d(pooled, indices, 2, {.output_size = Shape{3, 4}}), {0, 5, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0});
  }
}

TEST(MaxUnpool, WritesAPlaceThatSeveralNameOnce) {
  const TestDevices devices(1);
  const Tensor x = tensor({1., 2., 7., 3., 1.}).view({1, 1, 5});
  for (const Tensor& place : {x, x.cuda()}) {
    const auto [pooled, indices] = max_pool1d_with_indices(place, 3, {.stride = 1});
    expect_values(pooled, {7, 7, 7});
    expect_values(max_unpool1d(pooled, indices, 3, {.stride = 1}), {0, 0, 7, 0, 0});
  }
}

TEST(MaxPool, HandsOnNaNs) {
  const TestDevices devices(1);
  const Tensor x = tensor({1., kNan, 3., 4., 5., -kInfinity, -kInfinity, -kInfinity}).view({1, 1, 8});
  for (const Tensor& place : {x, x.cuda()}) {
    expect_values(max_pool1d(place, 2), {kNan, 4, 5, -kInfinity});
    expect_values(max_pool1d_with_indices(place, 2).indices, {1, 3, 4, 6});
  }
}

// A window of two elements, three apart, in an image of two: it covers only padding.
TEST(MaxPool, OfNothingIsMinusInfinityAndHasNoGradient) {
  const TestDevices devices(1);
  for (const Tensor& x : {ones({1, 1, 2}), ones({1, 1, 2}).cuda()}) {
    const auto pool = [](const Tensor& v) { return max_pool1d(v, 2, {.padding = 1, .dilation = 3}); };
    expect_values(pool(x), {-kInfinity});
    expect_values(weighted_gradient(pool, x), {0, 0});
  }
}

TEST(AdaptivePool, DividesEvenly) {
  const TestDevices devices(1);
  const Tensor x = arange(0, 5, 1, {.dtype = kFloat64}).view({1, 1, 5});
  for (const Tensor& place : {x, x.cuda()}) {
    expect_values(adaptive_avg_pool1d(place, 3), {0.5, 2, 3.5});  // the windows [0, 2), [1, 4) and [3, 5)
    expect_values(adaptive_max_pool1d(place, 3), {1, 3, 4});
    expect_values(adaptive_avg_pool1d(place, 10), {0, 0, 1, 1, 2, 2, 3, 3, 4, 4});
    expect_values(adaptive_avg_pool1d(place, -1), values(x));
    EXPECT_EQ(adaptive_avg_pool1d(place, 0).sizes(), (Shape{1, 1, 0}));
  }
}

TEST(AdaptivePool, OfAllIsTheMean) {
  const TestDevices devices(1);
  const Tensor x = randn({3, 5, 7, 6}, {.dtype = kFloat64});
  for (const Tensor& place : {x, x.cuda(), channels_last(x), channels_last(x.cuda())}) {
    const std::vector<double> means = values(mean(place, {2, 3})), pooled = values(adaptive_avg_pool2d(place, 1));
    for (std::size_t i = 0; i < means.size(); ++i) EXPECT_NEAR(pooled[i], means[i], 1e-14);
    expect_values(adaptive_max_pool2d(place, 1), values(amax(place, {2, 3})));
  }
}

TEST(LpPool, GivesNorms) {
  const Tensor x = tensor({3., 4., -1., 1., 0., 0.}).to(kFloat64).view({1, 1, 6});
  expect_values(lp_pool1d(x, 2, 2), {5, std::sqrt(2), 0});
  expect_values(lp_pool1d(x, 1, 2), {7, 0, 0});
  expect_values(lp_pool1d(x, kInfinity, 2), {4, 1, 0});
  expect_values(lp_pool1d(x, -kInfinity, 2), {3, 1, 0});
  expect_values(weighted_gradient([](const Tensor& v) { return lp_pool1d(v, 2, 2); }, x.narrow(2, 4, 2)), {0, 0});
}

TEST(PoolingErrors, NameWhatIsWrong) {
  const Tensor x = ones({1, 2, 4, 4});
  EXPECT_EQ(message_of<ShapeError>([&] { max_pool2d(x.select(0, 0).select(0, 0), 2); }),
            "[max_pool2d] expected x [N, C, 2 sizes] or [C, 2 sizes], where only N may be 0, got [4, 4]");
  EXPECT_EQ(message_of<ShapeError>([&] { avg_pool2d(x, 5); }),
            "[avg_pool2d] expected windows [5, 5] that fit the images, got [1, 2, 4, 4]");
  EXPECT_EQ(message_of<InvalidArgument>([&] { max_pool2d(x, 2, {.padding = 2}); }),
            "[max_pool2d] expected padding of at most half of kernel_size 2, got 2");
  EXPECT_EQ(message_of<InvalidArgument>([&] { avg_pool2d(x, 2, {.stride = 0}); }),
            "[avg_pool2d] expected stride of at least 1, got 0");
  EXPECT_EQ(message_of<InvalidArgument>([&] { avg_pool2d(x, 2, {.divisor_override = 0}); }),
            "[avg_pool2d] expected a divisor_override other than 0, got 0");
  EXPECT_EQ(message_of<ShapeError>([&] {
              max_pool2d(x, {1, 2, 3});
            }),
            "[max_pool2d] expected one kernel_size, or 2 (one for each dimension), got [1, 2, 3]");
  EXPECT_EQ(message_of<DTypeError>([&] { avg_pool2d(x.to(kInt64), 2); }),
            "[avg_pool2d] expected a floating dtype, got int64");
  const auto [pooled, indices] = max_pool2d_with_indices(x, 2);
  const Tensor values = pooled, places = indices;
  EXPECT_EQ(message_of<ShapeError>([&] {
              max_unpool2d(values, places, 2, {.output_size = Shape{8, 4}});
            }),
            "[max_unpool2d] expected an output_size of 2 sizes, each less than a stride from [4, 4], got [8, 4]");
  EXPECT_EQ(message_of<InvalidArgument>([&] { max_unpool2d(values, places + 16, 2); }),
            "[max_unpool2d] expected indices from 0 to 15, got 16");
}

TEST(EmptyBatch, StaysEmptyWhenPooled) {
  EXPECT_EQ(max_pool2d(ones({0, 3, 4, 4}), 2).sizes(), (Shape{0, 3, 2, 2}));
  EXPECT_EQ(avg_pool2d(ones({0, 3, 4, 4}), 2).sizes(), (Shape{0, 3, 2, 2}));
}

// PyTorch's rule: with ceil_mode a window must start inside of the input or the padding before it.
TEST(PoolingWindows, CeilModeMakesNoWindowThatStartsBehindTheInput) {
  const Tensor x = tensor({1., 2.}).view({1, 1, 2});
  expect_values(max_pool1d(x, 2, {.stride = 3, .padding = 1, .ceil_mode = true}), {1});
  expect_values(avg_pool1d(x, 2, {.stride = 3, .padding = 1, .ceil_mode = true}), {0.5});
}

}  // namespace
}  // namespace lockstep
