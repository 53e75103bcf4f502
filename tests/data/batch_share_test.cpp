// BatchShare: the rows of a batch that each of several processes gets.
#include <lockstep/data/batch_share.h>

#include <gtest/gtest.h>

#include <lockstep/core/error.h>

#include "support/thrown.h"

namespace lockstep::data {
namespace {

using testing::thrown;

TEST(BatchShare, IsAllRowsUnlessToldOtherwise) {
  EXPECT_TRUE(BatchShare().is_all());
  for (const std::int64_t total : {0, 1, 7}) EXPECT_EQ(BatchShare().rows(total), (RowRange{0, total}));
}

TEST(BatchShare, OfOneProcessIsAllRowsForAnyNumberOfDevices) {
  for (const int devices : {2, 3, 8})
    EXPECT_EQ((BatchShare{.devices = devices}.rows(10)), (RowRange{0, 10})) << devices;
}

TEST(BatchShare, GivesEachDeviceTheSameNumberRoundedUp) {
  // 10 rows over 2 x 2 devices are 3, 3 and 3, 1.
  EXPECT_EQ((BatchShare{.process = 0, .processes = 2, .devices = 2}.rows(10)), (RowRange{0, 6}));
  EXPECT_EQ((BatchShare{.process = 1, .processes = 2, .devices = 2}.rows(10)), (RowRange{6, 4}));
}

TEST(BatchShare, LeavesTheLastProcessesNoneOfASmallBatch) {
  // 5 rows over 4 x 1 devices are 2, 2, 1 and none.
  EXPECT_EQ((BatchShare{.process = 2, .processes = 4}.rows(5)), (RowRange{4, 1}));
  EXPECT_EQ((BatchShare{.process = 3, .processes = 4}.rows(5)), (RowRange{5, 0}));
}

TEST(BatchShare, RefusesAProcessThatIsNoneOfThem) {
  EXPECT_NO_THROW((BatchShare{.process = 2, .processes = 3}.check()));
  EXPECT_EQ(thrown<InvalidArgument>([] { BatchShare{.process = 3, .processes = 3, .devices = 2}.check(); }),
            "[BatchShare] expected 0 <= process < processes and devices >= 1, got process 3 of 3 with 2 devices");
  EXPECT_THROW((BatchShare{.process = -1, .processes = 3}.check()), InvalidArgument);
  EXPECT_THROW((BatchShare{.processes = 0}.check()), InvalidArgument);
  EXPECT_THROW((BatchShare{.devices = 0}.check()), InvalidArgument);
}

}  // namespace
}  // namespace lockstep::data
