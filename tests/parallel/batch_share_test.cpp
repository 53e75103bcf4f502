// A process gets the rows that scatter would give its devices if they were devices of one process.
#include <lockstep/data/batch_share.h>

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include <lockstep/parallel/scatter.h>

namespace lockstep {
namespace {

TEST(BatchShareOfScatter, HasTheRowsThatScatterDealsToItsDevices) {
  for (int processes = 1; processes <= 5; ++processes)
    for (int devices = 1; devices <= 4; ++devices)
      for (std::int64_t total = 0; total <= 50; ++total) {
        std::vector<std::int64_t> dealt = shard_sizes(total, std::size_t(processes) * std::size_t(devices), {});
        dealt.resize(std::size_t(processes) * std::size_t(devices), 0);
        for (int p = 0; p < processes; ++p) {
          const auto begin = dealt.begin() + p * devices;
          const data::RowRange expected = {std::accumulate(dealt.begin(), begin, std::int64_t(0)),
                                           std::accumulate(begin, begin + devices, std::int64_t(0))};
          const data::BatchShare share = {.process = p, .processes = processes, .devices = devices};
          EXPECT_EQ(share.rows(total), expected) << total << " over " << processes << " x " << devices << ", " << p;
        }
      }
}

}  // namespace
}  // namespace lockstep
