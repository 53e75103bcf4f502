// State dicts.
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
  EXPECT_EQ(thrown<InvalidArgument>([&] { state.at("b"); }), "[state_dict] expected an existing key (a), got b");
  for (int i = 0; i < 32; ++i) state.add(std::to_string(i), ones({1}));
  const std::string message = thrown<InvalidArgument>([&] { state.at("b"); });
  EXPECT_TRUE(message.ends_with(", 27, 28 and 3 more), got b")) << message;
  EXPECT_EQ(thrown<InvalidArgument>([&] { state.add("a", ones({1})); }),
            "[state_dict] expected each key once, got \"a\" again");
}

}  // namespace
}  // namespace lockstep
