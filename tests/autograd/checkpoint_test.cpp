#include <lockstep/autograd/checkpoint.h>

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include <lockstep/autograd/autocast.h>
#include <lockstep/autograd/autograd.h>
#include <lockstep/core/error.h>
#include <lockstep/core/print.h>
#include <lockstep/ops/activation.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/dropout.h>
#include <lockstep/ops/linalg.h>
#include <lockstep/ops/normalization.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/softmax.h>
#include <lockstep/ops/unary.h>
#include <lockstep/runtime/memory.h>
#include <lockstep/runtime/simulation.h>
#include <lockstep/runtime/stream.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "support/test_devices.h"
#include "support/thrown.h"
#include "support/values.h"

namespace lockstep {
namespace {

using testing::thrown;
using testing::values;

Tensor leaf(const Tensor& x) { return x.clone().detach().requires_grad_(); }

struct Residual {
  Tensor first = leaf(randn({6, 4}));
  Tensor second = leaf(randn({4, 6}));
  double p = 0.4;
  int runs = 0;

  Tensor operator()(const Tensor& x) {
    ++runs;
    return x + linear(dropout(tanh(linear(x, first)), p), second);
  }
};

struct Result {
  std::vector<double> loss, x, first, second;
  bool operator==(const Result&) const = default;
};

Result train(const Residual& like, const Tensor& input, bool checkpointed) {
  manual_seed(7);
  Residual block{leaf(like.first), leaf(like.second), like.p};
  const Tensor x = leaf(input);
  Tensor h = x;
  for (int i = 0; i < 3; ++i) h = checkpointed ? checkpoint([&](const Tensor& y) { return block(y); }, h) : block(h);
  const Tensor loss = sum(square(h));
  loss.backward();
  EXPECT_EQ(block.runs, checkpointed ? 6 : 3);
  return {values(loss), values(x.grad()), values(block.first.grad()), values(block.second.grad())};
}

TEST(Checkpoint, GivesTheSameBitsUnderDropout) {
  const TestDevices devices(1);
  for (const char* device : {"cpu", "cuda:0"}) {
    Residual block;
    block.first = block.first.detach().to(device);
    block.second = block.second.detach().to(device);
    const Tensor x = randn({5, 4}).to(device);
    EXPECT_EQ(train(block, x, true), train(block, x, false));
  }
}

TEST(Checkpoint, LeavesTheRandomSequenceWhereItIs) {
  Residual block;
  const Tensor x = leaf(randn({5, 4}));
  const Tensor y = checkpoint([&](const Tensor& in) { return block(in); }, x);
  const GeneratorState before = current_generator();
  sum(y).backward();
  EXPECT_EQ(current_generator(), before);
}

TEST(Checkpoint, MayContainCheckpoints) {
  Residual a, b;
  const Tensor x = randn({5, 4});
  const auto run = [&](bool checkpointed) {
    manual_seed(3);
    const Tensor in = leaf(x);
    const auto inner = [&](const Tensor& y) { return b(a(tanh(y))); };
    const auto outer = [&](const Tensor& y) {
      const Tensor z = sin(y);
      return checkpointed ? cos(checkpoint(inner, z)) : cos(inner(z));
    };
    const Tensor loss = sum(checkpointed ? checkpoint(outer, in) : outer(in));
    a.first.set_grad({});
    loss.backward();
    return std::pair(values(in.grad()), values(a.first.grad()));
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(Checkpoint, GivesSeveralOutputsOfSeveralInputs) {
  const Tensor a = leaf(randn({3})), b = leaf(randn({3}));
  const auto function = [](const Tensor& x, const Tensor& y) { return std::pair(exp(x * y), sin(x) * cos(y)); };
  const auto gradients_of = [&](const auto& outputs) {
    return gradients(std::vector{sum(outputs.first * outputs.second)}, std::vector{a, b});
  };
  const auto expected = gradients_of(function(a, b)), got = gradients_of(checkpoint(function, a, b));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(values(got[i]), values(expected[i]));
}

TEST(Checkpoint, HasGradientsOfGradients) {
  const Tensor x = leaf(randn({3}));
  const auto function = [](const Tensor& y) { return exp(sin(y)) * y; };
  const auto second = [&](const Tensor& y) {
    const Tensor first = gradients(std::vector{sum(y)}, std::vector{x}, {}, {.create_graph = true})[0];
    return values(gradients(std::vector{sum(square(first))}, std::vector{x})[0]);
  };
  const std::vector<double> got = second(checkpoint(function, x)), expected = second(function(x));
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5);
}

TEST(Checkpoint, EntersTheAutocastRegionAgain) {
  Residual block;
  block.p = 0;
  const Tensor x = randn({5, 4});
  const auto run = [&](bool checkpointed) {
    block.first.set_grad({});
    Tensor loss;
    {
      const Autocast region(kBFloat16);
      const auto function = [&](const Tensor& y) { return block(y); };
      loss = sum(checkpointed ? checkpoint(function, x) : function(x));
    }
    loss.backward();
    return values(block.first.grad());
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(Checkpoint, NeedsTheMemoryOfOnePart) {
  const TestDevices devices(1);
  const Device device("cuda:0");
  constexpr int kDepth = 8;
  constexpr std::int64_t kBytes = 256 * 256 * 4;
  const auto peak = [&](bool checkpointed) {
    Tensor h = leaf(rand({256, 256}).to(device));
    const Tensor x = h;
    reset_peak_memory(device);
    const std::size_t before = memory_stats(device).in_use;
    const auto part = [](const Tensor& y) { return sin(exp(sin(exp(sin(y))))); };
    for (int i = 0; i < kDepth; ++i) h = checkpointed ? checkpoint(part, h) : part(h);
    sum(h).backward();
    return (memory_stats(device).peak_in_use - before) / kBytes;
  };
  // Each part saves its input and two outputs of exp, each of which the next sin saves as its input too.
  EXPECT_GE(peak(false), 3 * kDepth);
  EXPECT_LE(peak(true), kDepth + 10);
}

TEST(Checkpoint, KeepsNothingBehindACheckpointInIt) {
  const TestDevices devices(1);
  const Device device("cuda:0");
  const auto part = [](const Tensor& y) { return sin(exp(sin(exp(sin(y))))); };
  const Tensor x = leaf(rand({256, 256}).to(device));
  const std::size_t before = memory_stats(device).in_use;
  const Tensor y = checkpoint([&](const Tensor& in) { return part(checkpoint(part, in)); }, x);
  EXPECT_LE(memory_stats(device).in_use - before, y.numel() * sizeof(float));
}

TEST(Checkpoint, RecordsNothingWithoutGradients) {
  const NoGrad guard;
  Residual block;
  EXPECT_FALSE(checkpoint([&](const Tensor& y) { return block(y); }, randn({5, 4})).requires_grad());
}

TEST(Checkpoint, LeavesRunningStatisticsAlone) {
  const Tensor mean = zeros({4}), variance = ones({4});
  const Tensor x = leaf(randn({5, 4}));
  const Tensor y = checkpoint(
      [&](const Tensor& in) { return batch_norm(in, mean, variance, ones({4}), zeros({4}), {.training = true}); }, x);
  const std::vector<double> before = values(mean);
  sum(square(y)).backward();
  EXPECT_EQ(values(mean), before);
}

// The second run works with copies: a launch that fails leaves the statistics as they are, and nothing of it is used by
// the next backward.
TEST(Checkpoint, CanBeRunAgainAfterAnyFailure) {
  SimulatedDevices devices({.count = 1});
  const Device device("cuda:0");
  const Tensor mean = zeros({4}).to(device), variance = ones({4}).to(device);
  const Tensor input = (randn({5, 4}) * 2 + 3).to(device);
  const auto norm = [&](const Tensor& in) {
    return tanh(batch_norm(in, mean, variance, {}, {}, {.training = true})) * in;
  };
  std::vector<double> expected;
  for (std::uint64_t nth = 0;; ++nth) {
    const Tensor x = leaf(input);
    const Tensor loss = sum(checkpoint(norm, x));
    const std::vector<double> moved = values(mean), spread = values(variance);
    if (nth > 0) devices.fault().fail_launch({.nth = nth});
    bool failed = false;
    try {
      loss.backward({}, true);
      synchronize(device);
    } catch (const BackendError&) {
      failed = true;
    }
    devices.fault().clear();
    EXPECT_EQ(values(mean), moved) << nth;
    EXPECT_EQ(values(variance), spread) << nth;
    Tensor(x).set_grad({});
    loss.backward();
    if (nth == 0) expected = values(x.grad());
    EXPECT_EQ(values(x.grad()), expected) << nth;
    if (nth > 0 && !failed) break;
    EXPECT_LT(nth, 100u);
  }
}

TEST(Checkpoint, HasASequenceOfItsOwnThatMayBeSeeded) {
  const auto run = [](bool checkpointed) {
    const auto masked = [](const Tensor& in) {
      manual_seed(3);
      return dropout(in, 0.5) * in;
    };
    manual_seed(1);
    const Tensor x = leaf(ones({20}));
    sum(checkpointed ? checkpoint(masked, x) : masked(x)).backward();
    return std::pair(values(x.grad()), values(rand({3})));
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(Checkpoint, MayTakeAnotherStreamEachTime) {
  const TestDevices devices(1);
  const Device device("cuda:0");
  const auto beside = [&](const Tensor& in) {
    const Stream own = current_stream(device), other = Stream::from_pool(device);
    other.wait(own.record());
    in.record_stream(other);
    Tensor out;
    {
      const StreamGuard guard(other);
      out = tanh(in * 1.1);
    }
    own.wait(other.record());
    out.record_stream(own);
    return out;
  };
  const Tensor input = randn({5, 6}).to(device);
  const auto run = [&](bool checkpointed) {
    const Tensor x = leaf(input);
    sum(checkpointed ? checkpoint(beside, x) : beside(x)).backward();
    return values(x.grad());
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(Checkpoint, MayChangeAnInputInPlace) {
  const Tensor weight = leaf(randn({3}));
  const auto run = [&](bool checkpointed) {
    Tensor(weight).set_grad({});
    const Tensor count = ones({3});
    const auto scaled = [&](const Tensor& in) {
      Tensor(in).add_(1.0);
      return exp(weight * in);
    };
    sum(checkpointed ? checkpoint(scaled, count) : scaled(count)).backward();
    EXPECT_EQ(values(count), std::vector<double>(3, 2));
    return values(weight.grad());
  };
  EXPECT_EQ(run(true), run(false));
}

// The outer function runs again on one device's thread, and the inner on the other's.
TEST(Checkpoint, SharesABufferWithAnotherThatRunsAgainAtTheSameTime) {
  const TestDevices devices(2);
  const Device first("cuda:0"), second("cuda:1");
  const auto pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); };
  for (int round = 0; round < 10; ++round) {
    const Tensor mean = zeros({4}).to(first), variance = ones({4}).to(first), x = leaf(randn({6, 4}).to(first));
    const auto inner = [&](const Tensor& in) {
      pause();
      const Tensor normal = batch_norm(in, mean, variance, {}, {}, {.training = true});
      pause();
      const Tensor there = tanh(normal * in).to(second);
      return there * there * there;
    };
    const auto outer = [&](const Tensor& in) { return std::pair(checkpoint(inner, in), tanh(in * in) * in); };
    const auto [there, here] = checkpoint(outer, x);
    const std::vector<double> moved = values(mean), spread = values(variance);
    backward({sum(there), sum(here)});
    EXPECT_EQ(values(mean), moved) << round;
    EXPECT_EQ(values(variance), spread) << round;
  }
}

TEST(Checkpoint, MayChangeAPinnedTensor) {
  const SimulatedDevices devices({.count = 1});
  const Device device("cuda:0");
  const Tensor scale = ones({3}).pin_memory(), x = leaf(ones({3}).to(device));
  const auto scaled = [&](const Tensor& in) {
    Tensor(scale).add_(1.0);
    return tanh(in * scale.to(device));
  };
  sum(checkpoint(scaled, x)).backward();
  EXPECT_EQ(values(scale), std::vector<double>(3, 2));
}

TEST(Checkpoint, ChangesWithoutAGraphWhatHasOne) {
  const auto run = [](bool checkpointed) {
    const Tensor x = leaf(ones({3})), h = x * 2.0;
    const auto halved = [&](const Tensor& in) {
      {
        const NoGrad guard;
        Tensor(h).mul_(0.5);
      }
      return tanh(h) * in;
    };
    sum(checkpointed ? checkpoint(halved, x) : halved(x)).backward();
    return std::pair(values(x.grad()), values(h));
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(Checkpoint, RefusesToChangeWhatHasAGraph) {
  const Tensor x = leaf(ones({3}));
  Tensor h = x * 2.0;
  EXPECT_NE(thrown<AutogradError>([&] {
              checkpoint([&](const Tensor& in) { return tanh(h.mul_(3.0)) * in; }, x);
            }).find("and that has a graph, because it runs again"),
            std::string::npos);
}

TEST(Checkpoint, RefusesToReadWhatWasChangedAfterForward) {
  const Tensor x = leaf(ones({3})), factor = ones({3}) * 2.0;
  const Tensor y = checkpoint([&](const Tensor& in) { return tanh(in * factor); }, x);
  Tensor(factor).mul_(2.0);
  EXPECT_NE(thrown<AutogradError>([&] { sum(y).backward(); }).find("that was changed in place after forward"),
            std::string::npos);
}

TEST(Checkpoint, RefusesToChangeWhatItsFirstRunMade) {
  Tensor state;
  const auto counting = [&](const Tensor& in) {
    if (!state.defined()) state = zeros({3});
    state.add_(1.0);
    return exp(in * state.clone());
  };
  const Tensor y = checkpoint(counting, leaf(ones({3})));
  EXPECT_NE(thrown<AutogradError>([&] { sum(y).backward(); }).find("that its first run has made"), std::string::npos);
  EXPECT_EQ(values(state), std::vector<double>(3, 1));
}

TEST(Checkpoint, RefusesABackwardWithinTheFunction) {
  const auto penalty = [](const Tensor& in) {
    const Tensor cube = sum(in * in * in);
    return gradients({cube}, {in}, {}, {.create_graph = true})[0] * in;
  };
  EXPECT_NE(thrown<AutogradError>([&] { checkpoint(penalty, leaf(randn({3}))); }).find("call them after checkpoint()"),
            std::string::npos);
}

TEST(Checkpoint, RefusesAFunctionThatDoesSomethingElse) {
  const Tensor x = leaf(randn({3}));
  bool again = false;
  const Tensor y =
      checkpoint([&](const Tensor& in) { return std::exchange(again, true) ? in * in * in : exp(in) * in; }, x);
  // Leaves are not counted. In the first run, Exp and Mul save the exponential; in the second, Mul saves the square.
  EXPECT_EQ(thrown<AutogradError>([&] { sum(y).backward(); }),
            "[checkpoint] the function must compute the same when it is run again for backward: it saved 2 tensors in "
            "forward, and 1 now (in backward of Mul)");
}

TEST(Checkpoint, RefusesAFunctionThatComputesInAnotherDType) {
  const Tensor x = leaf(randn({3}));
  bool again = false;
  const auto wider = [&](const Tensor& in) {
    return std::exchange(again, true) ? exp(in.to(kFloat64)).to(kFloat32) : exp(in);
  };
  const Tensor y = checkpoint(wider, x);
  EXPECT_EQ(
      thrown<AutogradError>([&] { sum(y).backward(); }),
      "[checkpoint] the function must compute the same when it is run again for backward: its saved tensor 0 was [3] "
      "float32 in forward, and is [3] float64 now (in backward of Exp)");
}

TEST(Checkpoint, RefusesInputsThatWereChanged) {
  Tensor x = randn({3}) * leaf(ones({3}));
  const Tensor y = checkpoint([](const Tensor& in) { return exp(sin(in)); }, x);
  {
    const NoGrad guard;
    x.mul_(2.0);
  }
  EXPECT_NE(thrown<AutogradError>([&] { sum(y).backward(); }).find("it was changed in place"), std::string::npos);
}

}  // namespace
}  // namespace lockstep
