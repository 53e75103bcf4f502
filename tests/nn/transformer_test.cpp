// How the layers of a transformer compute. What they compute: tests/reference/transformers_test.cpp.
#include <lockstep/nn/transformer.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/runtime/simulation.h>
#include <lockstep/runtime/stream.h>
#include <lockstep/runtime/trace.h>
#include <lockstep/tensor/random.h>

#include "support/values.h"

namespace lockstep {
namespace {

using testing::values;

std::ptrdiff_t relus_of(nn::TransformerEncoderLayer& layer, const Tensor& x) {
  synchronize(Device::cuda(0));
  const Trace trace;
  layer(x);
  synchronize(Device::cuda(0));
  return std::ranges::count(trace.events(), "relu", &TraceEvent::name);
}

TEST(TransformerEncoderLayer, DoesReluWithTheProductWhereNothingIsRecorded) {
  const SimulatedDevices devices({.count = 1});
  nn::TransformerLayerOptions options = {.dim_feedforward = 16};
  nn::TransformerEncoderLayer known(8, 2, options);
  options.activation = [](const Tensor& x) { return relu(x); };  // nobody can know what that does
  nn::TransformerEncoderLayer unknown(8, 2, options);
  unknown.load_state_dict(known.state_dict());
  for (nn::TransformerEncoderLayer* layer : {&known, &unknown}) layer->to(Device::cuda(0)), layer->eval();
  const Tensor x = randn({5, 3, 8}).cuda();
  EXPECT_EQ(relus_of(known, x), 1);
  const NoGrad guard;
  EXPECT_EQ(relus_of(known, x), 0);
  EXPECT_EQ(relus_of(unknown, x), 1);
  const std::vector<double> got = values(known(x)), expected = values(unknown(x));
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5);
}

}  // namespace
}  // namespace lockstep
