#include <lockstep/runtime/threads.h>

#include <gtest/gtest.h>

#include <limits>

#include <lockstep/core/error.h>

namespace lockstep {
namespace {

TEST(Threads, RefusesCountsOutOfRange) {
  const int before = num_threads();
  for (const int count : {0, -1, 1025, std::numeric_limits<int>::max()})
    EXPECT_THROW(set_num_threads(count), InvalidArgument);
  EXPECT_EQ(num_threads(), before);
}

}  // namespace
}  // namespace lockstep
