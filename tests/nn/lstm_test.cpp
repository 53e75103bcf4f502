// All steps of an LSTM as one operation: equal to the composition of operations, and on any number of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include <lockstep/autograd/autograd.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/join.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/unary.h>
#include <lockstep/runtime/stream.h>
#include <lockstep/runtime/threads.h>
#include <lockstep/runtime/trace.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "ops/recurrent/sequence.h"
#include "support/test_devices.h"
#include "support/values.h"

namespace lockstep {
namespace {

using recurrent::Inputs;
using recurrent::Outputs;
using recurrent::Steps;
using testing::values;

// More rows than one block, a hidden size that is no multiple of a panel, and a gradient of the gates that is longer
// than one block of the product.
constexpr std::int64_t kRows = 21, kHidden = 70, kIn = 3;

Inputs lstm_inputs(std::int64_t rows, bool with_state, const Device& device = Device()) {
  const auto input = [&](const Shape& shape) { return (randn(shape) * 0.2).to(device).requires_grad_(); };
  const Shape state = {kRows, kHidden};
  return {input({rows, kIn}),
          with_state ? input(state) : Tensor(),
          with_state ? input(state) : Tensor(),
          input({4 * kHidden, kIn}),
          input({4 * kHidden, kHidden}),
          input({4 * kHidden}),
          input({4 * kHidden}),
          {}};
}

std::vector<Tensor> gradients_of(const Outputs& out, const Inputs& in) {
  std::vector<Tensor> inputs;
  for (const Tensor& input : in)
    if (input.defined()) inputs.push_back(input);
  const Tensor loss = sum(out.output * out.output) + sum(out.h) + sum(out.c * out.c);
  return gradients(std::vector{loss}, inputs);
}

void expect_close(const Tensor& got, const Tensor& expected) {
  const std::vector<double> a = values(got), b = values(expected);
  ASSERT_EQ(a.size(), b.size());
  const double most = max(abs(expected)).item<double>();
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 2e-5 * (1 + most)) << "element " << i;
}

TEST(LstmOfAllSteps, IsItsComposition) {
  const TestDevices devices(1);
  const std::vector<std::int64_t> sizes(6, kRows);
  for (const Device& device : {Device(), Device::cuda(0)})
    for (const bool reverse : {false, true})
      for (const bool with_state : {false, true}) {
        const Steps steps(sizes, reverse);
        const Inputs in = lstm_inputs(steps.total(), with_state, device);
        const Outputs got = recurrent::run("lstm", RecurrentKind::lstm, in, steps),
                      expected = recurrent::composed(RecurrentKind::lstm, in, steps);
        expect_close(got.output, expected.output);
        expect_close(got.h, expected.h);
        expect_close(got.c, expected.c);
        const std::vector<Tensor> a = gradients_of(got, in), b = gradients_of(expected, in);
        for (std::size_t i = 0; i < a.size(); ++i) expect_close(a[i], b[i]);
      }
}

TEST(LstmOfAllSteps, GivesTheSameBitsOnAnyNumberOfThreads) {
  const int before = num_threads();
  const Steps steps(std::vector<std::int64_t>(6, kRows), false);
  const Inputs in = lstm_inputs(steps.total(), true);
  std::vector<std::vector<double>> seen;
  for (const int threads : {1, 2, 5}) {
    set_num_threads(threads);
    const Outputs out = recurrent::run("lstm", RecurrentKind::lstm, in, steps);
    const std::vector<Tensor> found = gradients_of(out, in);
    seen.push_back(values(cat({out.output.detach().flatten(), found[1].flatten(), found[2].flatten()})));
  }
  set_num_threads(before);
  EXPECT_EQ(seen[0], seen[1]);
  EXPECT_EQ(seen[0], seen[2]);
}

TEST(LstmOfAllSteps, IsOneOperationWhereSequencesAreOfOneLength) {
  const SimulatedDevices devices({.count = 1});
  const auto operations = [](const std::vector<std::int64_t>& sizes) {
    const Steps steps(sizes, false);
    const Inputs in = lstm_inputs(steps.total(), true, Device::cuda(0));
    synchronize(Device::cuda(0));
    const Trace trace;
    recurrent::run("lstm", RecurrentKind::lstm, in, steps);
    synchronize(Device::cuda(0));
    return std::ranges::count(trace.events(), "lstm", &TraceEvent::name);
  };
  EXPECT_EQ(operations({kRows, kRows, kRows}), 1);
  EXPECT_EQ(operations({kRows, kRows, kRows - 1}), 0);
}

}  // namespace
}  // namespace lockstep
