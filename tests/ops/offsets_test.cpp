// Operands at any offset: views into larger tensors, whose first element is up to 15 elements behind aligned memory. A
// kernel may rely only on the alignment of an element, and must not write outside of its operands.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ops/all_ops.h"
#include "ops/checks.h"
#include "ops/gradcheck_cases.h"
#include "support/test_devices.h"

namespace lockstep {
namespace {

using testing::values;

using Inputs = std::vector<Tensor>;

constexpr std::int64_t kOffsets = 16;  // elements: a cache line of floats
constexpr double kBeside = 77;

/// The same values, `offset` elements behind the beginning of a larger tensor, `room`.
struct Placed {
  Tensor room, view;

  Placed(const Tensor& x, std::int64_t offset)
      : room(full({offset + x.numel() + kOffsets}, kBeside, {.dtype = x.dtype(), .device = x.device()})),
        view(room.narrow(0, offset, x.numel()).view(x.sizes())) {
    view.copy_(x.detach());
  }
};

// Packs have at most 16 bytes; simulated devices compute as the CPU does.
std::int64_t offsets_on(const Device& device, DType dtype) {
  if (device.is_cpu()) return kOffsets;
  return are_simulated() ? 2 : std::int64_t(16 / size_of(dtype));
}

// Compares bits. Cards may sum differently aligned operands in another order.
void expect_equal(const Tensor& got, const Tensor& expected) {
  ASSERT_EQ(got.sizes(), expected.sizes());
  ASSERT_EQ(got.dtype(), expected.dtype());
  const bool exact = got.device().is_cpu() || are_simulated();
  const double room = exact ? 0 : size_of(got.dtype()) == 2 ? 0.02 : size_of(got.dtype()) == 4 ? 1e-4 : 1e-12;
  const auto a = values(got), b = values(expected);
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_TRUE(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])) ||
                std::abs(a[i] - b[i]) <= room * (1 + std::abs(b[i])))
        << "element " << i << ": " << a[i] << " for " << b[i];
}

// The function's results and gradients, with all inputs and the outputs' gradients at that offset.
Inputs results(const DifferentiableFunction& function, const Inputs& inputs, std::int64_t offset) {
  Inputs leaves, roots, seeds;
  for (const Tensor& x : inputs) leaves.push_back(Placed(x, offset).view.requires_grad_());
  Inputs all = function.call(leaves);
  for (const Tensor& y : all) {
    if (!y.requires_grad()) continue;
    roots.push_back(y);
    const Tensor seed =
        arange(1, double(y.numel() + 1), 1, {.dtype = y.dtype(), .device = y.device()}) / double(y.numel());
    seeds.push_back(Placed(seed.view(y.sizes()), offset).view);
  }
  for (Tensor& gradient : gradients(roots, leaves, seeds)) all.push_back(std::move(gradient));
  return all;
}

void expect_equal_anywhere(const DifferentiableFunction& function, const Inputs& inputs) {
  const Inputs expected = results(function, inputs, 0);
  for (std::int64_t offset = 1; offset < offsets_on(inputs[0].device(), inputs[0].dtype()); ++offset) {
    SCOPED_TRACE(::testing::Message() << inputs[0].dtype() << " on " << inputs[0].device() << ", offset " << offset);
    const Inputs got = results(function, inputs, offset);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      if (expected[i].defined()) expect_equal(got[i], expected[i]);
  }
}

Inputs drawn(const GradientCase& of, DType dtype, const Device& device) {
  manual_seed(7);
  Inputs inputs;
  for (const Shape& sizes : of.sizes) {
    Tensor x = empty(sizes, {.dtype = kFloat64});
    inputs.push_back(uniform_(x, of.low, of.high).to(device, dtype));
  }
  return inputs;
}

// -- Every differentiable operation, on its own small operands

class OpsAnywhere : public ::testing::TestWithParam<GradientCase> {};

TEST_P(OpsAnywhere, GiveTheSame) {
  for (const DType dtype : {kFloat64, kFloat32}) try {
      expect_equal_anywhere(GetParam().function, drawn(GetParam(), dtype, Device()));
    } catch (const DTypeError&) {  // a case with its own constants
      ASSERT_EQ(dtype, kFloat32);
    }
}

INSTANTIATE_TEST_SUITE_P(Offsets, OpsAnywhere, ::testing::ValuesIn(all_gradient_cases()),
                         [](const auto& example) { return std::string(example.param.name); });

// -- Every kind of kernel, on operands of whole packs and vectors, and on others

class KernelsAnywhere : public ::testing::TestWithParam<GradientCase> {};

TEST_P(KernelsAnywhere, GiveTheSame) {
  const TestDevices devices(1);
  for (const Device& device : {Device(), Device("cuda:0")})
    for (const DType dtype : {kFloat32, kFloat64, kBFloat16, kFloat16})
      expect_equal_anywhere(GetParam().function, drawn(GetParam(), dtype, device));
}

std::vector<GradientCase> kernel_cases() {
  std::vector<GradientCase> all;
  // `sizes` of both operands: with rows of 136 elements, and of 133.
  const auto add = [&all](const char* name, const DifferentiableFunction& function,
                          const std::function<std::vector<Shape>(std::int64_t)>& sizes) {
    for (const std::int64_t length : {136, 133}) all.push_back({name, function, sizes(length)});
  };
  const auto row = [](std::int64_t n) { return std::vector<Shape>{{n}}; };
  const auto rows = [](std::int64_t n) { return std::vector<Shape>{{5, n}}; };
  const auto rows_and_two = [](std::int64_t n) { return std::vector<Shape>{{5, n}, {n}, {n}}; };
  const auto images = [](std::int64_t n) { return std::vector<Shape>{{2, 8, n}, {8}, {8}}; };
  const auto planes = [](std::int64_t n) { return std::vector<Shape>{{2, 3, n}}; };
  const auto indices = [](const Tensor& x) { return tensor({3, 0, 4, 3, 1, 3}).to(x.device()); };

  add(
      "elementwise", [](const Inputs& x) { return gelu(x[0]) * x[0] + 1; }, row);
  add(
      "broadcast", [](const Inputs& x) { return x[0] * x[1] + x[2]; }, rows_and_two);
  add(
      "column", [](const Inputs& x) { return x[0].narrow(1, 3, 100) * x[0].select(1, 2).unsqueeze(1); }, rows);
  add(
      "converted", [](const Inputs& x) { return x[0].to(kFloat32).to(kFloat64).to(kBFloat16); }, row);
  add(
      "transposed", [](const Inputs& x) { return x[0].t().contiguous(); }, rows);
  add(
      "sum", [](const Inputs& x) { return sum(x[0]); }, row);
  add(
      "sum_of_rows", [](const Inputs& x) { return sum(x[0], {1}); }, rows);
  add(
      "sum_of_columns", [](const Inputs& x) { return sum(x[0], {0}); }, rows);
  add(
      "variance", [](const Inputs& x) { return var(x[0], {1}); }, rows);
  add(
      "norm", [](const Inputs& x) { return norm(x[0]); }, row);
  add(
      "max", [](const Inputs& x) { return max(x[0], 1).values; }, rows);
  add(
      "sort", [](const Inputs& x) { return sort(x[0], 1).values; }, rows);
  add(
      "cumsum", [](const Inputs& x) { return cumsum(x[0], 1); }, rows);
  add(
      "softmax", [](const Inputs& x) { return softmax(x[0], 1); }, rows);
  add(
      "log_softmax", [](const Inputs& x) { return log_softmax(x[0], 1); }, rows);
  add(
      "cross_entropy", [indices](const Inputs& x) { return cross_entropy(x[0], indices(x[0]).narrow(0, 0, 5)); }, rows);
  add(
      "layer_norm", [](const Inputs& x) { return layer_norm(x[0], x[1].sizes(), x[1], x[2]); }, rows_and_two);
  add(
      "rms_norm", [](const Inputs& x) { return rms_norm(x[0], x[1].sizes(), x[1]); }, rows_and_two);
  add(
      "batch_norm_of_rows", [](const Inputs& x) { return batch_norm(x[0], {}, {}, x[1], x[2], {.training = true}); }, rows_and_two);
  add(
      "batch_norm", [](const Inputs& x) { return batch_norm(x[0], {}, {}, x[1], x[2], {.training = true}); }, images);
  add(
      "group_norm", [](const Inputs& x) { return group_norm(x[0], 2, x[1], x[2]); }, images);
  add(
      "dropout",
      [](const Inputs& x) {
        manual_seed(3);
        return dropout(x[0], 0.4);
      },
      row);
  add(
      "index_select", [indices](const Inputs& x) { return index_select(x[0], 0, indices(x[0])); }, rows);
  add(
      "cat",
      [](const Inputs& x) {
        return cat({x[0], x[0] * 2}, 1);
      },
      rows);
  add(
      "stack",
      [](const Inputs& x) {
        return stack({x[1], x[2]}, 1);
      },
      rows_and_two);
  add(
      "flip", [](const Inputs& x) { return flip(x[0], {1}); }, rows);
  add(
      "tril", [](const Inputs& x) { return tril(x[0]); }, rows);
  add(
      "linear", [](const Inputs& x) { return linear(x[0], x[1], x[2]); },
      [](std::int64_t n) {
        return std::vector<Shape>{{5, n}, {24, n}, {24}};
      });
  add(
      "matmul", [](const Inputs& x) { return matmul(x[0], x[1]); },
      [](std::int64_t n) {
        return std::vector<Shape>{{3, 5, n}, {3, n, 20}};
      });
  add(
      "attention", [](const Inputs& x) { return scaled_dot_product_attention(x[0], x[1], x[2]); },
      [](std::int64_t n) {
        return std::vector<Shape>(3, Shape{1, 2, 9, n / 4});
      });
  add(
      "conv", [](const Inputs& x) { return conv1d(x[0], x[1], x[2], {.stride = 2, .padding = 1}); },
      [](std::int64_t n) {
        return std::vector<Shape>{{2, 8, n}, {16, 8, 3}, {16}};
      });
  add(
      "pointwise_conv", [](const Inputs& x) { return conv1d(x[0], x[1], x[2], {.stride = 2}); },
      [](std::int64_t n) {
        return std::vector<Shape>{{2, 8, n}, {16, 8, 1}, {16}};
      });
  add(
      "max_pool", [](const Inputs& x) { return max_pool1d(x[0], 3); }, planes);
  add(
      "avg_pool", [](const Inputs& x) { return avg_pool1d(x[0], 3); }, planes);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Offsets, KernelsAnywhere, ::testing::ValuesIn(kernel_cases()), [](const auto& example) {
  return std::string(example.param.name) + "_" + std::to_string(example.index);
});

// -- In-place operations on views

struct InPlace {
  const char* name;
  std::function<void(Tensor& view)> write;
  friend void PrintTo(const InPlace& of, std::ostream* out) { *out << of.name; }
};

class WritesAnywhere : public ::testing::TestWithParam<InPlace> {};

// Rows like those of an embedding's weight, each with another alignment.
TEST_P(WritesAnywhere, AreTheSameAndWriteNothingBeside) {
  const TestDevices devices(1);
  for (const Device& device : {Device(), Device("cuda:0")})
    for (const DType dtype : {kFloat32, kFloat64, kBFloat16, kFloat16}) {
      const auto written = [&](std::int64_t length, std::int64_t offset) {
        manual_seed(5);
        Placed x(arange(double(length), {.dtype = dtype, .device = device}) / double(length), offset);
        GetParam().write(x.view);
        for (const Tensor& beside : {x.room.narrow(0, 0, offset), x.room.narrow(0, offset + length, kOffsets)})
          for (const double value : values(beside)) EXPECT_EQ(value, kBeside);
        return x.view;
      };
      for (const std::int64_t length :
           {1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 50, 64, 100, 255, 256, 257, 300, 1027}) {
        const Tensor expected = written(length, 0);
        for (std::int64_t offset = 1; offset < offsets_on(device, dtype); ++offset) {
          SCOPED_TRACE(::testing::Message() << dtype << " on " << device << ", " << length << " at offset " << offset);
          expect_equal(written(length, offset), expected);
        }
      }
    }
}

const std::vector<InPlace> kWrites = {
    {"normal", [](Tensor& x) { x.normal_(0, 0.1); }},
    {"uniform", [](Tensor& x) { x.uniform_(-1, 1); }},
    {"bernoulli", [](Tensor& x) { x.bernoulli_(0.3); }},
    {"zero", [](Tensor& x) { x.zero_(); }},
    {"copy", [](Tensor& x) { x.copy_(arange(double(x.numel()), {.dtype = x.dtype(), .device = x.device()})); }},
    {"convert", [](Tensor& x) { x.copy_(arange(double(x.numel()), {.device = x.device()})); }},
    {"add", [](Tensor& x) { x.add_(x, 0.5); }},
    {"exp", [](Tensor& x) { x.exp_(); }},
    {"clamp", [](Tensor& x) { x.clamp_(0.2, 0.7); }},
    {"masked_fill", [](Tensor& x) { x.masked_fill_(gt(x, 0.3), 2); }},
    {"index_add", [](Tensor& x) { x.index_add_(0, arange(double(x.numel())).to(x.device(), kInt64), ones_like(x)); }},
    {"scatter", [](Tensor& x) { x.scatter_(0, arange(double(x.numel())).to(x.device(), kInt64), x * 2); }},
    {"lerp", [](Tensor& x) { x.lerp_(x * x, 0.5); }},
};
INSTANTIATE_TEST_SUITE_P(Offsets, WritesAnywhere, ::testing::ValuesIn(kWrites),
                         [](const auto& of) { return std::string(of.param.name); });

}  // namespace
}  // namespace lockstep
