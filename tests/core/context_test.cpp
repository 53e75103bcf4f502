#include "core/context.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace lockstep {
namespace {

TEST(ContextScope, NestsAndEnds) {
  Context outer = {.recording = false}, inner = {.replica = 3};
  Context* const own = &context();
  {
    const ContextScope first(outer);
    EXPECT_EQ(&context(), &outer);
    {
      const ContextScope second(inner);
      EXPECT_EQ(context().replica, 3u);
      EXPECT_TRUE(context().recording) << "nothing is taken over that is not named";
      context().replica = 4;
    }
    EXPECT_FALSE(context().recording);
  }
  EXPECT_EQ(&context(), own);
  EXPECT_EQ(inner.replica, 4u);
}

TEST(ContextScope, HoldsForItsThreadAlone) {
  std::string printed;
  Context present = {.in_pass = true, .printed = &printed};
  const ContextScope scope(present);
  std::thread([&] {
    EXPECT_NE(&context(), &present);
    EXPECT_FALSE(context().in_pass);
    EXPECT_EQ(context().printed, nullptr);
  }).join();
  EXPECT_TRUE(context().in_pass);
}

}  // namespace
}  // namespace lockstep
