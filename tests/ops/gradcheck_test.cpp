// Checks every differentiable function of lockstep/ops, its gradients and their gradients against central differences
// (gradcheck_cases.h). The last test fails if a function has no case. (Views, copies and in-place operations have their
// own tests.)
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>

#include "ops/all_ops.h"
#include "ops/gradcheck_cases.h"

namespace lockstep {
namespace {

using Inputs = std::vector<Tensor>;

class Gradcheck : public ::testing::TestWithParam<GradientCase> {
 protected:
  Gradcheck() {
    manual_seed(7);
    for (const Shape& sizes : GetParam().sizes) {
      Tensor x = empty(sizes, {.dtype = kFloat64});
      inputs_.push_back(uniform_(x, GetParam().low, GetParam().high));
    }
  }
  Inputs inputs_;
};

TEST_P(Gradcheck, GradientsAreDerivatives) { EXPECT_NO_THROW(gradcheck(GetParam().function.call, inputs_)); }
TEST_P(Gradcheck, GradientsOfGradientsAreDerivatives) {
  EXPECT_NO_THROW(gradgradcheck(GetParam().function.call, inputs_));
}

INSTANTIATE_TEST_SUITE_P(, Gradcheck, ::testing::ValuesIn(all_gradient_cases()),
                         [](const auto& example) { return std::string(example.param.name); });

// Functions that return bools or indices.
const std::set<std::string> kNotDifferentiable = {
    "all",         "any", "argmax",      "argmin",      "argsort",    "bernoulli",   "bincount",
    "bucketize",   "eq",  "ge",          "gt",          "histc",      "isfinite",    "isinf",
    "isnan",       "le",  "logical_and", "logical_not", "logical_or", "logical_xor", "lt",
    "multinomial", "ne",  "nonzero",     "normal",      "one_hot",    "searchsorted"};

// The functions that the headers of lockstep/ops declare.
std::set<std::string> declared_functions() {
  const std::regex declaration(
      "LOCKSTEP_API (?:Tensor|ValuesAndIndices|std::vector<Tensor>|std::tuple<Tensor, Tensor>) ([a-z_0-9]+)\\(");
  std::set<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(LOCKSTEP_SOURCE_DIR "/include/lockstep/ops")) {
    std::stringstream text;
    text << std::ifstream(file.path()).rdbuf();
    const std::string all = text.str();
    for (std::sregex_iterator found(all.begin(), all.end(), declaration), end; found != end; ++found)
      names.insert((*found)[1]);
  }
  return names;
}

// The longest function name with which a case's name begins.
std::string function_of(std::string name, const std::set<std::string>& functions) {
  while (!functions.contains(name) && name.find('_') != std::string::npos) name.resize(name.rfind('_'));
  return name;
}

TEST(Gradchecks, LeaveOutNoDifferentiableFunction) {
  const std::set<std::string> functions = declared_functions();
  EXPECT_GT(functions.size(), 100u);
  std::set<std::string> expected, checked;
  std::ranges::set_difference(functions, kNotDifferentiable, std::inserter(expected, expected.end()));
  for (const GradientCase& each : all_gradient_cases())
    if (const std::string name = function_of(each.name, functions); functions.contains(name)) checked.insert(name);
  EXPECT_EQ(checked, expected);
}

}  // namespace
}  // namespace lockstep
