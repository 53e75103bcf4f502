// Memory that comes and goes stays from where an operation takes its address until the operation ends.
#include "tensor/transient_memory.h"

#include <gtest/gtest.h>

#include <memory>

#include <lockstep/core/error.h>
#include <lockstep/tensor/creation.h>

#include "ops/index_check.h"

namespace lockstep {
namespace {

struct Counting final : TransientOwner {
  int released = 0;
  void let_go(std::size_t number) noexcept override { released += int(number); }
};

TEST(TransientMemory, GoesWhenAnOperationIsEnqueued) {
  const auto owner = std::make_shared<Counting>();
  keep_until_enqueued(owner, 3);
  {
    const WithoutEnqueuing operation;
    zeros({2});
    EXPECT_EQ(owner->released, 0);
  }
  zeros({2});
  EXPECT_EQ(owner->released, 3);
  EXPECT_EQ(owner.use_count(), 1);
}

TEST(TransientMemory, GoesWhenAnOperationFails) {
  const Tensor index = full({1}, 7, {.dtype = kInt64});
  const auto owner = std::make_shared<Counting>();
  keep_until_enqueued(owner, 1);
  EXPECT_THROW(check_index("test", index, 5, {}), InvalidArgument);
  EXPECT_EQ(owner->released, 1);
}

}  // namespace
}  // namespace lockstep
