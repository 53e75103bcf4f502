// The tensors that operations save for backward: checkpoint() can drop all of them, and a change in place of an input
// or of an output is noticed.
#include <gtest/gtest.h>

#include <algorithm>

#include <lockstep/autograd/checkpoint.h>
#include <lockstep/runtime/memory.h>

#include "ops/all_ops.h"
#include "ops/gradcheck_cases.h"
#include "support/values.h"

namespace lockstep {
namespace {

class SavedTensors : public ::testing::TestWithParam<GradientCase> {
 protected:
  using Tensors = std::vector<Tensor>;

  static Tensors inputs() {
    manual_seed(7);
    Tensors all;
    for (const Shape& sizes : GetParam().sizes) {
      Tensor x = empty(sizes, {.dtype = kFloat64});
      all.push_back(uniform_(x, GetParam().low, GetParam().high).requires_grad_());
    }
    return all;
  }
  static void change(const Tensor& x) {
    const bool is_expanded = std::ranges::count(x.strides(), 0) > 0;  // which cannot be changed in place
    if (is_floating(x.dtype()) && !is_expanded) x.detach().mul_(0.5).add_(0.1);
  }
};

TEST_P(SavedTensors, TakeNoMemoryInACheckpoint) {
  const Tensors x = inputs();
  const auto call = [&](const Tensor&) { return GetParam().function.call(x); };
  const auto kept_by = [&](const auto& run) {
    const std::size_t before = memory_stats(Device()).in_use;
    const Tensors outputs = run();
    return memory_stats(Device()).in_use - before;
  };
  call(x[0]);  // memory that stays, such as packed weights
  const std::size_t outputs = kept_by([&] {
    const NoGrad guard;
    return call(x[0]);
  });
  EXPECT_LE(kept_by([&] { return checkpoint(call, x[0]); }), outputs);
}

TEST_P(SavedTensors, MayBeChangedInPlaceOnlyIfBackwardDoesNotReadThem) {
  using Gradients = std::vector<std::vector<double>>;
  // Changes tensor `which` after forward: the inputs are counted first, then the outputs; -1: none.
  std::size_t count = 0;
  const auto gradients_after = [&](int which) {
    Tensors x = inputs(), outputs = GetParam().function.call(x), weighted;
    Tensors all = x;
    all.insert(all.end(), outputs.begin(), outputs.end());
    count = all.size();
    if (which >= 0) change(all[std::size_t(which)]);
    Tensors roots, seeds;
    for (const Tensor& output : outputs)
      if (output.requires_grad()) {
        roots.push_back(output);
        seeds.push_back(ones(output.sizes(), output.options()) * (1.0 + double(roots.size())));
      }
    backward(roots, seeds);
    Gradients found;
    for (const Tensor& each : x)
      found.push_back(each.grad().defined() ? testing::values(each.grad()) : std::vector<double>());
    return found;
  };
  const Gradients expected = gradients_after(-1);
  for (std::size_t which = 0; which < count; ++which) try {
      EXPECT_EQ(gradients_after(int(which)), expected) << "tensor " << which << " was changed";
    } catch (const AutogradError&) {
    }
}

INSTANTIATE_TEST_SUITE_P(, SavedTensors, ::testing::ValuesIn(all_gradient_cases()),
                         [](const auto& example) { return std::string(example.param.name); });

}  // namespace
}  // namespace lockstep
