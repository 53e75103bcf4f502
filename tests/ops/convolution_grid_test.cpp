// Convolutions of the host's library (oneDNN) over random geometries, against the composed convolutions. Guards
// surround all memory that the library may write, and its inputs. All numbers are small integers, whose sums are exact,
// so both must give the same bits.
//
// A run draws a sample of geometries, a different one each day. By hand:
//   LOCKSTEP_GEOMETRIES=20000 LOCKSTEP_SEED=1 LOCKSTEP_CPU=avx2 ops_tests --gtest_filter='ConvolutionGrid*'
// LOCKSTEP_CPU (plain, avx2, avx512) also limits oneDNN's primitives. ONEDNN_VERBOSE=1 prints their names.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/tensor/creation.h>

#include "cpu/convolution/fused_convolution.h"
#include "ops/conv/composed.h"
#include "ops/conv/convolution.h"
#include "ops/images.h"
#include "support/drawn.h"
#include "support/guarded.h"
#include "support/repetitions.h"
#include "support/test_devices.h"
#include "support/values.h"

namespace lockstep {
namespace {

using namespace testing;

// -- Geometries

struct Geometry {
  Shape x, weight, y;
  ConvGeometry numbers;
  bool bias;

  double multiplications() const { return double(y.elements()) * double(weight.elements()) / double(weight[0]); }
};

std::ostream& operator<<(std::ostream& out, const Geometry& g) {
  return out << "x " << g.x << ", weight " << g.weight << ", y " << g.y << ", stride " << g.numbers.stride
             << ", padding " << g.numbers.padding << ", dilation " << g.numbers.dilation << ", groups "
             << g.numbers.groups << (g.bias ? ", bias" : "");
}

Geometry drawn_once(Random& random) {
  Geometry g;
  const int spatial = int(one_in(random, 2) ? 2 : between(random, 1, 3));
  const auto channels = [&] { return one_in(random, 6) ? 64 : between(random, 1, 17); };
  const bool depthwise = one_in(random, 8);
  g.numbers.groups = depthwise ? channels() : one_in(random, 3) ? between(random, 2, 4) : 1;
  const std::int64_t in = depthwise ? 1 : channels(), out = depthwise ? between(random, 1, 2) : channels();
  const std::int64_t batch = one_in(random, 2) ? between(random, 1, 33) : std::int64_t(1) << between(random, 0, 5);
  g.x = {batch, in * g.numbers.groups};
  g.y = {batch, out * g.numbers.groups};
  g.weight = {out * g.numbers.groups, in};
  g.bias = one_in(random, 2);
  const bool same = one_in(random, 2);                                                          // in all dimensions
  const std::int64_t most = one_in(random, 3) ? 3 : spatial == 1 ? 70 : spatial == 2 ? 17 : 6;  // all border, or not
  std::int64_t window = 0, stride = 0, dilation = 0;
  for (int d = 0; d < spatial; ++d) {
    if (d == 0 || !same) {
      window = one_in(random, 3) ? 1 : between(random, 1, 5);
      stride = between(random, 1, 3);
      dilation = one_in(random, 3) ? between(random, 2, 3) : 1;
    }
    const std::int64_t reach = dilation * (window - 1) + 1;
    const std::int64_t padding = one_in(random, 2) ? 0 : between(random, 0, one_in(random, 4) ? reach + 1 : reach / 2);
    const std::int64_t size = between(random, 1, most), rest = one_in(random, 2) ? 0 : between(random, 0, stride - 1);
    g.weight.push_back(window);
    g.y.push_back(size);
    g.x.push_back((size - 1) * stride + reach - 2 * padding + rest);
    g.numbers.stride.push_back(stride);
    g.numbers.dilation.push_back(dilation);
    g.numbers.padding.push_back(padding);
  }
  return g;
}

// Most geometries are small; one in 32 is large enough that the library splits the batch into pieces.
Geometry drawn(Random& random) {
  const double most = one_in(random, 32) ? 1e8 : 2e6;
  for (;;) {
    const Geometry g = drawn_once(random);
    bool fits = g.multiplications() <= most && g.x.elements() <= 4e6;
    for (const std::int64_t size : g.x) fits = fits && size > 0;
    if (fits) return g;
  }
}

// -- Library against composition

// An operand of small integers. Operands with y's order of sizes are channels-last, those with a weight's order
// row-major.
struct Operand {
  Tensor values;  // row-major
  Shape strides;
  Guarded memory;

  Operand(const Tensor& of, bool images, Random& random)
      : values(of),
        strides(images ? channels_last_strides(of.sizes()) : contiguous_strides(of.sizes())),
        memory(std::size_t(of.numel()) * sizeof(float), 1, one_in(random, 2) ? 0 : sizeof(float) * (random() % 16)) {}

  Tensor laid() const { return strides == contiguous_strides(values.sizes()) ? values : as_images(values); }
  void fill() { std::memcpy(memory.data(), laid().impl()->data(), std::size_t(values.numel()) * sizeof(float)); }
  bool equals() const {
    const auto* const expected = reinterpret_cast<const float*>(laid().impl()->data());
    return std::equal(expected, expected + values.numel(), memory.floats());
  }
  FusedOperand described(bool written) const {
    return {memory.data(), kFloat32, values.sizes(), strides, true, written};
  }
};

Tensor integers(const Shape& sizes, Random& random) {
  std::vector<float> values(std::size_t(sizes.elements()));
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < values.size(); ++i, bits >>= 4) {
    if (i % 16 == 0) bits = random();
    values[i] = float(bits % 16) - 7;
  }
  return tensor(values).view(sizes);
}

struct Outcome {
  bool offered = false;
  std::string wrong;  // or empty
};

// `operands` in the order of the fused operation; the last one is the result.
Outcome compare(FusedKind kind, const Geometry& g, const std::vector<Operand*>& operands) {
  FusedOp op;
  op.kind = kind;
  op.name = "convolution";
  op.stride = g.numbers.stride;
  op.padding = g.numbers.padding;
  op.dilation = g.numbers.dilation;
  op.groups = g.numbers.groups;
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (operands[i]) op.operands[i] = operands[i]->described(i + 1 == operands.size());
  const auto parts = host::convolution_parts(op);
  if (!parts) return {};
  for (std::size_t i = 0; i + 1 < operands.size(); ++i)
    if (operands[i]) operands[i]->fill();
  const Guarded scratch(parts->scratch_bytes, parts->pieces), weights(parts->weight_bytes, parts->weights);
  host::run_convolution({.parallel = true}, op, {scratch.data(), weights.data(), scratch.pitch(), weights.pitch()});
  const auto wrong = [&]() -> std::string {
    if (!scratch.intact()) return "scratch overflows";
    if (!weights.intact()) return "the room for weights overflows";
    for (const Operand* operand : operands)
      if (operand && !operand->memory.intact())
        return operand == operands.back() ? "the result overflows" : "an input's guard is written";
    for (std::size_t i = 0; i + 1 < operands.size(); ++i)
      if (operands[i] && !operands[i]->equals()) return "an input is written";
    if (operands.back()->equals()) return "";
    return "the result is another one";
  };
  return {true, wrong()};
}

// The operands of a geometry, and the results of the composed convolutions.
struct Composed {
  Tensor x, weight, bias, seeds, y, of_x, of_weight;

  Composed(const Geometry& g, Random& random)
      : x(integers(g.x, random)),
        weight(integers(g.weight, random)),
        seeds(integers(g.y, random)),
        y(empty(g.y)),
        of_x(empty(g.x)),
        of_weight(empty(g.weight)) {
    if (g.bias) bias = integers({g.y[1]}, random);
    composed::convolution(x, weight, bias, g.numbers, y);
    composed::convolution_input_gradient(seeds, weight, g.numbers, of_x);
    composed::convolution_weight_gradient(x, seeds, g.numbers, of_weight);
  }
};

// Counts the comparisons, and the wrong ones.
class Comparison {
 public:
  void add(const Geometry& g, Random& random) {
    const Composed with(g, random);
    Operand x(with.x, true, random), weight(with.weight, false, random), seeds(with.seeds, true, random);
    Operand y(with.y, true, random), of_x(with.of_x, true, random), of_weight(with.of_weight, false, random);
    std::optional<Operand> bias;
    if (g.bias) bias.emplace(with.bias, false, random);
    ++count_;
    add(0, g, compare(FusedKind::convolution, g, {&x, &weight, bias ? &*bias : nullptr, &y}));
    add(1, g, compare(FusedKind::convolution_input_gradient, g, {&seeds, &weight, &of_x}));
    add(2, g, compare(FusedKind::convolution_weight_gradient, g, {&x, &seeds, &of_weight}));
  }

  void report() const {
    std::cout << "ConvolutionGrid: " << count_ << " geometries; taken by the library, wrong:";
    for (std::size_t kind = 0; kind < 3; ++kind) {
      std::cout << ' ' << kNames[kind] << ' ' << offered_[kind] << ", " << wrong_[kind] << ';';
      EXPECT_GT(offered_[kind], count_ / 2) << kNames[kind];  // else nothing was compared
    }
    std::cout << std::endl;
  }

 private:
  static constexpr const char* kNames[] = {"forward", "input gradient", "weight gradient"};

  void add(std::size_t kind, const Geometry& g, const Outcome& outcome) {
    offered_[kind] += outcome.offered;
    if (outcome.wrong.empty()) return;
    if (++wrong_[kind] <= 50) ADD_FAILURE() << kNames[kind] << ": " << outcome.wrong << ": " << g;
  }

  std::int64_t count_ = 0, offered_[3] = {}, wrong_[3] = {};
};

TEST(ConvolutionGrid, IsTheCompositionAndWritesNothingBeside) {
  const std::int64_t count = number_from("LOCKSTEP_GEOMETRIES", repetitions(250)), seed = seed_of_the_day();
  std::cout << "ConvolutionGrid: LOCKSTEP_SEED=" << seed << '\n';
  Random random{std::uint64_t(seed)};
  Comparison comparison;
  for (std::int64_t i = 0; i < count; ++i) comparison.add(drawn(random), random);
  comparison.report();
}

// As in the shortcuts of residual networks. For some of these, oneDNN's jit_1x1:avx2 writes outside of its scratch.
TEST(ConvolutionGrid, TakesWindowsOfOneElement) {
  Random random(1);
  Comparison comparison;
  for (const int spatial : {1, 2, 3})
    for (const std::int64_t in : {3, 5, 8})
      for (const std::int64_t out : {8, 9, 32})
        for (const std::int64_t stride : {1, 2, 3})
          for (const std::int64_t size : {7, spatial == 3 ? 16 : 28}) {
            Geometry g = {{4, in}, {out, in}, {4, out}, {}, one_in(random, 2)};
            for (int d = 0; d < spatial; ++d) {
              g.x.push_back(size);
              g.weight.push_back(1);
              g.y.push_back((size - 1) / stride + 1);
              g.numbers.stride.push_back(stride);
              g.numbers.padding.push_back(0);
              g.numbers.dilation.push_back(1);
            }
            comparison.add(g, random);
          }
  comparison.report();
}

// Padding before and behind in depth. For some of these, oneDNN's jit:avx512_core sums over wrong planes.
TEST(ConvolutionGrid, TakesPaddingInDepth) {
  Random random(1);
  Comparison comparison;
  for (const std::int64_t window : {3, 4, 5})
    for (const std::int64_t stride : {1, 2, 3})
      for (std::int64_t padding = 0; padding < window; ++padding)
        for (std::int64_t size = 1; size <= 7; ++size) {
          const std::int64_t room = size + 2 * padding - window;
          if (room < 0) continue;
          comparison.add({{2, 16, size, 2, 3},
                          {16, 16, window, 1, 1},
                          {2, 16, room / stride + 1, 2, 3},
                          {{stride, 1, 1}, {padding, 0, 0}, {1, 1, 1}, 1},
                          false},
                         random);
        }
  comparison.report();
}

// The same geometries with a device's library: a card's, if LOCKSTEP_TEST_DEVICES asks for cards.
TEST(ConvolutionGrid, IsTheCompositionOnADevice) {
  const TestDevices devices(1);
  const Device device("cuda:0");
  const std::int64_t count = number_from("LOCKSTEP_GEOMETRIES", repetitions(20)), seed = seed_of_the_day();
  std::cout << "ConvolutionGrid: LOCKSTEP_SEED=" << seed << '\n';
  Random random{std::uint64_t(seed)};
  for (std::int64_t i = 0; i < count; ++i) {
    const Geometry g = drawn(random);
    if (are_emulated() && g.multiplications() > 1e5) continue;
    const Composed with(g, random);
    const auto near = [&](const char* name, const Tensor& got, const Tensor& expected) {
      const auto a = values(got), b = values(expected);
      ASSERT_EQ(a.size(), b.size());
      for (std::size_t k = 0; k < a.size(); ++k)
        ASSERT_NEAR(a[k], b[k], are_simulated() ? 0 : 1e-5 * (1e3 + std::abs(b[k])))
            << name << ", element " << k << ": " << g;
    };
    const auto there = [&](const Tensor& tensor) { return tensor.defined() ? tensor.to(device) : tensor; };
    near("forward", convolution(there(with.x), there(with.weight), there(with.bias), g.numbers), with.y);
    near("input gradient", convolution_input_gradient(there(with.seeds), there(with.weight), g.x, g.numbers),
         with.of_x);
    near("weight gradient", convolution_weight_gradient(there(with.x), there(with.seeds), g.weight, g.numbers),
         with.of_weight);
  }
}

}  // namespace
}  // namespace lockstep
