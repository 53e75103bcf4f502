// The gradient of cross_entropy is written over the logits if nobody can read them any more, and nowhere else.
#include <gtest/gtest.h>

#include <lockstep/runtime/memory.h>
#include <lockstep/runtime/stream.h>

#include "ops/all_ops.h"
#include "support/test_devices.h"
#include "support/values.h"
#include "tensor/tensor_impl.h"

namespace lockstep {
namespace {

using testing::values;

constexpr std::int64_t kRows = 64, kClasses = 1000;

// Logits that depend on a small parameter, whose gradient takes little memory.
struct Logits {
  explicit Logits(DType dtype = kFloat32, const Shape& sizes = {kRows, kClasses}) {
    manual_seed(5);
    const Shape first = [&] {
      Shape row = sizes;
      row[0] = 1;
      return row;
    }();
    offset = randn(first).to(device).to(dtype).requires_grad_();
    noise = randn(sizes).to(device).to(dtype);
    Shape rows = sizes;
    if (rows.rank() > 1)
      rows.erase(1);
    else
      rows = {};
    target = randint(0, sizes.rank() > 1 ? sizes[1] : sizes[0], rows).to(device);
  }
  Tensor operator()() const { return offset + noise; }

  Device device = "cuda:0";
  Tensor offset, noise, target;
};

// The most memory that backward() takes at a time, in bytes.
std::size_t memory_of_backward(const Tensor& loss) {
  reset_peak_memory(loss.device());
  const std::size_t before = memory_stats(loss.device()).in_use;
  loss.backward();
  return memory_stats(loss.device()).peak_in_use - before;
}

class OverwrittenLogits : public ::testing::Test {
 protected:
  const TestDevices devices_{2};
};

TEST_F(OverwrittenLogits, GiveTheSameGradient) {
  struct Case {
    const char* name;
    Shape sizes;
    CrossEntropyOptions options = {};
    bool weighted = false;
  };
  const Case cases[] = {{"rows", {kRows, kClasses}},
                        {"an odd number of classes", {5, 1231}},
                        {"few classes", {70, 3}},
                        {"images", {3, 40, 5, 7}},
                        {"one row", {kClasses}},
                        {"smoothing", {9, 300}, {.label_smoothing = 0.1}},
                        {"rows that are ignored", {40, 3}, {.ignore_index = 1}},
                        {"weights", {9, 300}, {.label_smoothing = 0.2}, true},
                        {"a sum", {9, 300}, {.reduction = Reduction::sum}},
                        {"a loss for each row", {9, 300}, {.reduction = Reduction::none}}};
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16, kFloat16})
    for (const Case& example : cases) {
      const auto gradient = [&](bool keeps) {
        const Logits logits(dtype, example.sizes);
        CrossEntropyOptions options = example.options;
        if (example.weighted) options.weight = (rand({300}) + 0.5).to(logits.device).to(dtype);
        Tensor x = logits(), kept = keeps ? x : Tensor();
        const Tensor loss = cross_entropy(std::exchange(x, {}), logits.target, options);
        const std::vector<double> before = kept.defined() ? values(kept) : std::vector<double>();
        sum(loss).backward();
        if (kept.defined()) {
          EXPECT_EQ(values(kept), before);
        }
        return values(logits.offset.grad());
      };
      EXPECT_EQ(gradient(false), gradient(true)) << example.name << " in " << dtype;
    }
}

TEST_F(OverwrittenLogits, TakeNoMemory) {
  const std::size_t bytes = kRows * kClasses * sizeof(float);
  const Logits logits;
  const auto memory = [&](const auto& change) {
    const Tensor loss = cross_entropy(change(logits()), logits.target);  // all temporaries end here
    return memory_of_backward(loss);
  };
  EXPECT_LT(memory([](const Tensor& x) { return x; }), bytes / 2);
  EXPECT_LT(memory([](const Tensor& x) { return x.view({1, kRows, kClasses}).view({-1, kClasses}); }), bytes / 2);
  const Autocast region(kBFloat16);
  EXPECT_LT(memory([](const Tensor& x) { return x.to(kBFloat16); }), bytes + bytes / 4);  // to()'s gradient is float32
}

// If something else may still read the logits, the gradient gets memory of its own.
TEST_F(OverwrittenLogits, AreThoseThatNobodyUses) {
  const std::size_t bytes = kRows * kClasses * sizeof(float);
  Logits logits;
  const auto expect_kept = [&](const char* by, const auto& use) {
    logits.offset.set_grad({});
    Tensor x = logits();
    const std::vector<double> before = values(x);
    const Tensor user = use(x);
    const Tensor loss = cross_entropy(std::exchange(x, {}), logits.target);
    EXPECT_GE(memory_of_backward(loss), bytes) << by;
    if (user.defined() && user.numel() == kRows * kClasses) {
      EXPECT_EQ(values(user), before) << by;
    }
  };
  expect_kept("a tensor", [](const Tensor& x) { return x; });
  expect_kept("a view", [](const Tensor& x) { return x.view({-1}); });
  expect_kept("a detached tensor", [](const Tensor& x) { return x.detach(); });
  expect_kept("a part", [](const Tensor& x) { return x.narrow(0, 3, 1); });
  expect_kept("another graph", [](const Tensor& x) { return sum(square(x)); });
  expect_kept("another stream", [&](const Tensor& x) {
    x.record_stream(Stream::from_pool(logits.device));
    return Tensor();
  });
}

TEST_F(OverwrittenLogits, AreNotPartOfALargerArray) {
  const Logits logits;
  Tensor gradient;
  {
    Tensor x = logits().narrow(0, 0, 2);
    x.register_hook([&](const Tensor& g) { gradient = g; });
    const Tensor loss = cross_entropy(std::exchange(x, {}), logits.target.narrow(0, 0, 2));
    loss.backward();
  }
  EXPECT_EQ(gradient.impl()->storage->bytes, 2 * kClasses * sizeof(float));
}

TEST_F(OverwrittenLogits, StayWhereTheGraphStays) {
  Logits logits;
  const Tensor loss = cross_entropy(logits(), logits.target);
  loss.backward({}, true);
  const std::vector<double> once = values(logits.offset.grad());
  logits.offset.set_grad({});
  loss.backward({}, true);
  EXPECT_EQ(values(logits.offset.grad()), once);
  logits.offset.set_grad({});
  loss.backward();
  EXPECT_EQ(values(logits.offset.grad()), once);
}

TEST_F(OverwrittenLogits, AreNotAParameter) {
  Tensor parameter = randn({4, 6}).to(Device("cuda:0")).requires_grad_();
  const std::vector<double> before = values(parameter);
  const Tensor target = zeros({4}, kInt64).to(parameter.device());
  cross_entropy(parameter, target).backward();
  EXPECT_EQ(values(parameter), before);
  cross_entropy(parameter.view({2, 12}).view({4, 6}), target).backward();
  EXPECT_EQ(values(parameter), before);
}

// Two losses of the same logits: the gradient of the first must not change what the second reads.
TEST_F(OverwrittenLogits, AreThoseOfTheLastLoss) {
  const auto gradient = [&](bool twice) {
    const Logits logits;
    Tensor x = logits(), y = twice ? x : logits();
    Tensor loss = cross_entropy(x, logits.target) + cross_entropy(y, logits.target);
    x = y = {};
    loss.backward();
    return values(logits.offset.grad());
  };
  const std::vector<double> one = gradient(true), two = gradient(false);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(one[i], two[i], 1e-6);
}

}  // namespace
}  // namespace lockstep
