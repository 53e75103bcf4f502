// Operations on rows, with the lengths and layouts for which devices have different code, against the CPU.
#include <cstring>

#include "core/text.h"
#include "ops/all_ops.h"
#include "ops/checks.h"
#include "support/test_devices.h"

namespace lockstep {
namespace {

using namespace testing;

// A device uses a part of a warp, a warp or a block for a row: up to 32, up to 1024, and more elements. Rows along a
// dimension that is not contiguous are processed many at once, unless there are few of them. Dense rows of whole packs
// (of 2 doubles, 4 floats, 8 halves) are read in packs, and kept in registers if a thread has at most 16, 32 or 32
// elements.
struct RowsCase {
  Shape sizes;
  int dim;
  friend void PrintTo(const RowsCase& rows, std::ostream* out) { *out << text(rows.sizes, " along ", rows.dim); }
};
const std::vector<RowsCase> kRowsCases = {
    {{9, 1}, 1},    {{300, 2}, 1},  {{37, 10}, 1},    {{9, 32}, 1},   {{5, 33}, 1},       {{9, 130}, 1},
    {{3, 1024}, 1}, {{3, 1025}, 1}, {{2, 5000}, 1},   {{5000}, 0},    {{5, 300}, 0},      {{31, 40}, 0},
    {{32, 40}, 0},  {{130, 33}, 0}, {{1024, 9}, 0},   {{1025, 9}, 0}, {{2, 1100, 11}, 1}, {{3, 7, 50}, 1},
    {{40, 7}, 0},   {{2000, 3}, 0}, {{2, 40, 70}, 1}, {{9, 480}, 1},  {{2, 3000}, 1},     {{3, 9000}, 1}};

void expect_all_close(const Tensor& got, const Tensor& expected, double tolerance) {
  const std::vector<double> a = values(got), b = values(expected);
  ASSERT_EQ(a.size(), b.size());
  if (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0) return;  // the usual case
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(b[i]) ? std::isnan(a[i]) : a[i] == b[i]) continue;
    ASSERT_LE(std::abs(a[i] - b[i]), tolerance * (1 + std::abs(b[i]))) << "element " << i;
  }
}

// Compares f on the device with f on the CPU.
template <class F>
void expect_as_on_the_cpu(const F& f, const Tensor& x, double tolerance = 1e-12) {
  expect_all_close(f(x.cuda()), f(x), tolerance);
}

class Rows : public ::testing::TestWithParam<RowsCase> {
 protected:
  // Checks x, and the same elements with gaps between them.
  template <class F>
  void expect_in_all_layouts(const F& f, const Tensor& x, double tolerance = 1e-12) const {
    const Tensor expected = f(x);
    expect_all_close(f(x.cuda()), expected, tolerance);
    const Tensor gaps = stack({x, x}, x.dim()).select(x.dim(), 1);
    ASSERT_FALSE(gaps.is_contiguous() && x.numel() > 1);
    expect_all_close(f(stack({x.cuda(), x.cuda()}, x.dim()).select(x.dim(), 1)), f(gaps), tolerance);
    const auto shifted = [&](const Tensor& v) {  // begins inside of a pack
      Tensor room = zeros({v.numel() + 1}, {.dtype = v.dtype(), .device = v.device()});
      Tensor place = room.narrow(0, 1, v.numel()).view(v.sizes());
      place.copy_(v);
      return place;
    };
    expect_all_close(f(shifted(x.cuda())), expected, tolerance);
  }
  Tensor random(DType dtype = kFloat64) const { return randn(sizes).to(dtype); }

  const Shape sizes = GetParam().sizes;
  const int dim = GetParam().dim;
  const TestDevices devices{1};
};

INSTANTIATE_TEST_SUITE_P(, Rows, ::testing::ValuesIn(kRowsCases), [](const auto& rows) {
  std::string name;
  for (const std::int64_t size : rows.param.sizes) name += std::to_string(size) + "x";
  return name + "Dim" + std::to_string(rows.param.dim);
});

TEST_P(Rows, Softmax) {
  const int d = dim;
  for (const DType dtype : {kFloat64, kFloat32, kFloat16}) {
    const double tolerance = dtype == kFloat64 ? 1e-12 : dtype == kFloat32 ? 1e-5 : 2e-3;
    const Tensor x = random(dtype);
    expect_in_all_layouts([d](const Tensor& v) { return softmax(v, d); }, x, tolerance);
    expect_in_all_layouts([d](const Tensor& v) { return log_softmax(v, d); }, x, tolerance);
    expect_in_all_layouts([d](const Tensor& v) { return logsumexp(v, {d}); }, x, tolerance);
  }
}

TEST_P(Rows, SoftmaxGradient) {
  const int d = dim;
  const auto softmax_of = [d](const Tensor& v) { return softmax(v, d); };
  const auto log_softmax_of = [d](const Tensor& v) { return log_softmax(v, d); };
  expect_in_all_layouts([&](const Tensor& v) { return weighted_gradient(softmax_of, v); }, random(), 1e-10);
  expect_in_all_layouts([&](const Tensor& v) { return weighted_gradient(log_softmax_of, v); }, random(), 1e-10);
}

TEST_P(Rows, LayerNorm) {
  const Shape last = {sizes.back()};
  const auto norm_of = [&](const Tensor& v) { return layer_norm(v, last); };
  expect_in_all_layouts(norm_of, random());
  // The gradient of a row of one or two elements is scaled-up rounding.
  if (sizes.back() > 2)
    expect_in_all_layouts([&](const Tensor& v) { return weighted_gradient(norm_of, v); }, random(), 1e-9);
  for (const DType dtype : {kFloat32, kFloat16}) {
    const Tensor weight = randn(last).to(dtype), bias = randn(last).to(dtype);
    const auto affine_of = [&](const Tensor& v) {
      return layer_norm(v, last, weight.to(v.device()), bias.to(v.device()));
    };
    if (sizes.back() > 2) expect_in_all_layouts(affine_of, random(dtype), dtype == kFloat32 ? 1e-4 : 2e-2);
  }
}

// Indices of equal elements and of NaNs, which different threads find.
TEST_P(Rows, FirstPlaceOfTheGreatest) {
  const int d = dim;
  const auto places = [d](const Tensor& v) { return stack({argmax(v, d), argmin(v, d)}, 0); };
  const Tensor few = randint(0, 3, sizes);
  for (const DType dtype : {kUInt8, kInt32, kInt64, kFloat16, kFloat32, kFloat64})
    expect_in_all_layouts(places, few.to(dtype), 0);
  const Tensor holes = few.to(kFloat64) + log(few.to(kFloat64)) * 0;  // NaN where 0 was
  expect_in_all_layouts(places, holes, 0);
  expect_in_all_layouts(places, where(eq(few, 0), full({}, kNan, {.dtype = kFloat64}), random()), 0);
}

TEST_P(Rows, Gather) {
  const int d = dim;
  Shape wanted = sizes;
  for (const std::int64_t count : {std::int64_t(1), sizes[d], 3 * sizes[d]}) {
    wanted[d] = count;
    const Tensor index = randint(0, sizes[d], wanted);
    const auto gathered = [&](const Tensor& v) { return gather_elements(v, d, index.to(v.device())); };
    expect_in_all_layouts(gathered, random(), 0);
    expect_in_all_layouts(gathered, randint(0, 200, sizes).to(kUInt8), 0);
    expect_in_all_layouts([&](const Tensor& v) { return weighted_gradient(gathered, v); }, random());
  }
}

TEST_P(Rows, RunInOrder) {
  const int d = dim;
  expect_in_all_layouts([d](const Tensor& v) { return cumsum(v, d); }, random());
  expect_in_all_layouts(
      [d](const Tensor& v) { return weighted_gradient([d](const Tensor& w) { return prod(w, {d}); }, v); }, random());
}

TEST_P(Rows, OneHot) {
  const std::int64_t classes = sizes[dim];
  const Tensor index = randint(0, classes, {13, 3});
  expect_as_on_the_cpu([&](const Tensor& v) { return one_hot(v, classes); }, index, 0);
}

// Rows that do not count are next to others, which wait for them at the same barriers.
TEST_P(Rows, CrossEntropy) {
  const int classes_at = sizes.rank() == 1 ? 0 : 1;
  Shape rows = sizes;
  rows.erase(classes_at);
  const std::int64_t classes = sizes[classes_at];
  const Tensor target = randint(-1, classes, rows), weight = rand({classes}, {.dtype = kFloat64});
  for (const double smoothing : {0.0, 0.2})
    for (const bool weighted : {false, true})
      for (const Reduction reduction : {Reduction::none, Reduction::sum}) {
        const auto loss = [&](const Tensor& v) {
          return cross_entropy(v, target.to(v.device()),
                               {.weight = weighted ? weight.to(v.device()) : Tensor(),
                                .ignore_index = -1,
                                .reduction = reduction,
                                .label_smoothing = smoothing});
        };
        expect_in_all_layouts(loss, random());
        expect_in_all_layouts([&](const Tensor& v) { return weighted_gradient(loss, v); }, random());
      }
}

TEST_P(Rows, WithInfinities) {
  const int d = dim;
  const Tensor signs = randint(-1, 2, sizes).to(kFloat64);
  const Tensor none = full(sizes, -kInfinity, {.dtype = kFloat64});
  for (const Tensor& x : {log(maximum(signs, zeros({}, {.dtype = kFloat64}))), random() / signs, none})
    for (const bool logarithm : {false, true}) {
      expect_in_all_layouts([&](const Tensor& v) { return logarithm ? log_softmax(v, d) : softmax(v, d); }, x);
      expect_in_all_layouts([&](const Tensor& v) { return logsumexp(v, {d}); }, x);
    }
}

// Sharding a batch over devices does not change the bits of a row.
TEST_P(Rows, ARowAloneHasTheSameBits) {
  if (sizes.rank() != 2) return;
  const Tensor x = randn(sizes).cuda();
  for (std::int64_t row = 0; row < sizes[0]; row += 1 + sizes[0] / 3) {
    const Tensor alone = x.narrow(0, row, 1);
    EXPECT_EQ(values(softmax(x, 1).narrow(0, row, 1)), values(softmax(alone, 1)));
    EXPECT_EQ(values(layer_norm(x, {sizes[1]}).narrow(0, row, 1)), values(layer_norm(alone, {sizes[1]})));
  }
}

Tensor as_it_is(const Tensor& x) { return x; }
Tensor in_float32(const Tensor& x) { return x.to(kFloat32); }

// The CPU converts rows of 16-bit elements to float. f(as) returns a result; `as` is one of the two functions above.
template <class F>
void expect_rounded_once(const F& f, DType dtype, const char* name) {
  const Tensor narrow = f(as_it_is);
  ASSERT_EQ(narrow.dtype(), dtype) << name;
  EXPECT_EQ(values(narrow), values(f(in_float32).to(dtype))) << name;
}

TEST(RowsOf16Bits, AreThoseOfFloatsRoundedOnce) {
  for (const DType dtype : {kFloat16, kBFloat16})
    for (const Shape& sizes : {Shape{5, 7}, {70, 33}, {2, 1000}, {40, 1}})
      for (const bool transposed : {false, true}) {
        SCOPED_TRACE(text(sizes, transposed ? " transposed" : "", " in ", dtype));
        const auto random = [&] {
          const Tensor x = (randn(transposed ? Shape{sizes[1], sizes[0]} : sizes) * 3).to(dtype);
          return transposed ? x.t() : x;
        };
        const Tensor x = random(), pull = random();
        for (const int d : {0, 1}) {
          expect_rounded_once([&](const auto& as) { return softmax(as(x), d); }, dtype, "softmax");
          expect_rounded_once([&](const auto& as) { return log_softmax(as(x), d); }, dtype, "log_softmax");
          expect_rounded_once([&](const auto& as) { return logsumexp(as(x), {d}); }, dtype, "logsumexp");
          EXPECT_EQ(values(argmax(x, d)), values(argmax(x.to(kFloat32), d)));
        }
        const Shape last = {sizes[1]};
        const Tensor weight = randn(last).to(dtype), bias = randn(last).to(dtype);
        const auto layer_norm_of = [&](const auto& as, const Tensor& v) {
          return layer_norm(v, last, as(weight), as(bias));
        };
        const auto rms_norm_of = [&](const auto& as, const Tensor& v) { return rms_norm(v, last, as(weight)); };
        const Tensor target = randint(-1, sizes[1], {sizes[0]});
        const auto loss_of = [&](const auto& as, const Tensor& v) {
          return cross_entropy(v, target,
                               {.weight = as(weight * weight), .ignore_index = -1, .reduction = Reduction::none});
        };
        const auto expect_of = [&](const auto& f, const Tensor& seed, const char* name) {
          expect_rounded_once([&](const auto& as) { return f(as, as(x)); }, dtype, name);
          expect_rounded_once(
              [&](const auto& as) {
                const Tensor leaf = as(x).clone().requires_grad_();
                return gradients(std::vector{f(as, leaf)}, std::vector{leaf}, std::vector{as(seed)})[0];
              },
              dtype, name);
        };
        const auto with_weight = [&](const auto& as) {
          const std::vector<Tensor> leaves = {as(x).clone().requires_grad_(), as(weight).clone().requires_grad_()};
          return gradients(std::vector{layer_norm(leaves[0], last, leaves[1])}, leaves, std::vector{as(pull)});
        };
        expect_rounded_once([&](const auto& as) { return with_weight(as)[0]; }, dtype, "layer_norm, with the weight");
        const Tensor of_weight = with_weight(as_it_is)[1].to(kFloat32), expected = with_weight(in_float32)[1];
        EXPECT_LE(max(abs(of_weight - expected) - abs(expected) / (dtype == kFloat16 ? 2048 : 256)).item<double>(),
                  1e-7);
        expect_of(layer_norm_of, pull, "layer_norm");
        expect_of(rms_norm_of, pull, "rms_norm");
        expect_of(loss_of, pull.select(1, 0), "cross_entropy");
      }
  // Rows that are adjacent only within a part, rows that are all the same row, and one operand twice.
  const Tensor x = randn({3, 5, 7}).to(kBFloat16), row = randn({1, 5}).to(kBFloat16);
  const Tensor target = randint(0, 5, {3, 7});
  for (const int d : {0, 1, 2})
    expect_rounded_once([&](const auto& as) { return softmax(as(x), d); }, kBFloat16, "softmax of three dimensions");
  expect_rounded_once([&](const auto& as) { return log_softmax(as(row).expand({90, 5}), 1); }, kBFloat16, "one row");
  expect_rounded_once([&](const auto& as) { return layer_norm(as(x), {7}); }, kBFloat16, "layer_norm by itself");
  expect_rounded_once([&](const auto& as) { return cross_entropy(as(x), target, {.reduction = Reduction::none}); },
                      kBFloat16, "cross_entropy by itself");
  EXPECT_EQ(values(logsumexp(zeros({2, 0}, {.dtype = kFloat16}), {1})), (std::vector<double>{-kInfinity, -kInfinity}));
}

}  // namespace
}  // namespace lockstep
