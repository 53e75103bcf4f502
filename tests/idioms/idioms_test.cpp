// Each idiom compiles, and returns the values that PyTorch returned (tests/idioms/make_*.py).
#include <gtest/gtest.h>

#include "idioms/idioms.h"

namespace lockstep {
namespace {

const StateDict& expected() {
  static const StateDict values = [] {
    StateDict all = load(LOCKSTEP_IDIOMS_FOLDER "/idioms.safetensors");
    for (const auto& [name, value] : load(LOCKSTEP_IDIOMS_FOLDER "/training_idioms.safetensors")) all.add(name, value);
    return all;
  }();
  return values;
}

void expect_same(const std::string& name, const Tensor& got, const Tensor& wanted) {
  ASSERT_EQ(got.dtype(), wanted.dtype()) << name;
  ASSERT_EQ(got.sizes(), wanted.sizes()) << name;
  const Tensor p = got.detach().to(kFloat64), q = wanted.to(kFloat64);
  const Tensor close = (p == q) | (abs(p - q) <= abs(q) * 1e-5 + 1e-6) | (isnan(p) & isnan(q));
  EXPECT_TRUE(all(close).item<bool>()) << name << "\n got " << got << "\n expected " << wanted;
}

void check(const std::vector<Idiom>& idioms) {
  for (const Idiom& idiom : idioms) {
    SCOPED_TRACE(idiom.name);
    const Tensor* const wanted = expected().find(idiom.name);
    ASSERT_NE(wanted, nullptr) << "the scripts do not have it";
    Tensor got;
    ASSERT_NO_THROW(got = idiom.run());
    expect_same(idiom.name, got, *wanted);
  }
}

TEST(Idioms, OfTensors) { check(tensor_idioms()); }
TEST(Idioms, OfMath) { check(math_idioms()); }
TEST(Idioms, OfIndexing) { check(indexing_idioms()); }
TEST(Idioms, OfOrder) { check(order_idioms()); }
TEST(Idioms, OfGraphs) { check(graph_idioms()); }
TEST(Idioms, OfModels) { check(model_idioms()); }
TEST(Idioms, OfTraining) { check(training_idioms()); }

TEST(Idioms, AreAllThatPyTorchComputed) {
  std::size_t count = 0;
  for (const auto& idioms : {tensor_idioms(), math_idioms(), indexing_idioms(), order_idioms(), graph_idioms(),
                             model_idioms(), training_idioms()})
    count += idioms.size();
  EXPECT_EQ(count, expected().size());
  EXPECT_GE(count, 150u);
}

}  // namespace
}  // namespace lockstep
