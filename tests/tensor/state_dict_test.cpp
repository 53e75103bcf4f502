// Tensors by key.
#include <lockstep/tensor/state_dict.h>

#include <gtest/gtest.h>

#include <lockstep/tensor/creation.h>

#include "support/thrown.h"

namespace lockstep {
namespace {

using testing::thrown;

TEST(StateDict, FindsByKey) {
  StateDict state;
  state.add("a", ones({1}));
  EXPECT_NE(state.find("a"), nullptr);
  EXPECT_EQ(state.find("b"), nullptr);
  EXPECT_EQ(thrown<InvalidArgument>([&] { state.at("b"); }), "[state_dict] expected one of 1 keys, got \"b\"");
  EXPECT_EQ(thrown<InvalidArgument>([&] { state.add("a", ones({1})); }),
            "[state_dict] expected each key once, got \"a\" again");
}

}  // namespace
}  // namespace lockstep
