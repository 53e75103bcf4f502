// Communication between the processes of a training run.
#include "train/processes.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <stdexcept>

#include <lockstep/core/error.h>

#include "support/in_processes.h"

namespace lockstep::train::detail {
namespace {

using testing::in_processes;
using testing::message_of;
using testing::thrown_in_processes;

TEST(TrainProcesses, HearWhatEachOfThemGave) {
  std::vector<std::vector<std::string>> heard(3);
  in_processes(3, [&](const World& world) {
    const auto rank = std::size_t(world.rank().value());
    heard[rank] = all_or_throw(world, "test", [&] { return std::string(rank, 'x'); });
  });
  EXPECT_EQ(heard, (std::vector<std::vector<std::string>>(3, {"", "x", "xx"})));
}

TEST(TrainProcesses, ThrowWhatOneOfThemThrew) {
  const auto failures = [](const auto& error) {
    return in_processes(3, [&](const World& world) {
      all_or_throw(world, "test", [&] {
        if (world.rank() == ProcessRank(1)) throw error;
        return std::string();
      });
    });
  };
  const auto io = failures(IoError("write", "file", ENOSPC));
  const std::string full = IoError("write", "file", ENOSPC).what();
  EXPECT_EQ(message_of<IoError>(io[0]), full + " (in process 1 on simulated-host-1)");
  EXPECT_EQ(message_of<IoError>(io[1]), full);
  EXPECT_EQ(message_of<IoError>(io[2]), message_of<IoError>(io[0]));
  const auto invalid = failures(ShapeError("wrong shape"));
  EXPECT_EQ(message_of<InvalidArgument>(invalid[0]), "wrong shape (in process 1 on simulated-host-1)");
  EXPECT_EQ(message_of<ShapeError>(invalid[1]), "wrong shape");
  const auto other = failures(std::runtime_error("other"));
  EXPECT_EQ(message_of<CollectiveError>(other[2]),
            "[test] failed on rank 1 with 0 bytes: other (in process 1 on simulated-host-1)");
  EXPECT_EQ(message_of<std::runtime_error>(other[1]), "other");
}

TEST(TrainProcesses, ThrowEachItsOwnWhereSeveralThrew) {
  EXPECT_EQ(thrown_in_processes<InvalidArgument>(3,
                                                 [](const World& world) {
                                                   all_or_throw(world, "test", [&]() -> std::string {
                                                     if (world.is_first()) return "";
                                                     throw InvalidArgument("of " + world.host(world.rank()));
                                                   });
                                                 }),
            (std::vector<std::string>{"of simulated-host-1 (in process 1 on simulated-host-1)", "of simulated-host-1",
                                      "of simulated-host-2"}));
}

TEST(TrainProcesses, NameTheSettingThatDiffers) {
  const auto given = [](const std::vector<std::string>& lines) {
    return thrown_in_processes<InvalidArgument>(3, [&](const World& world) {
      require_equal_in_all(world, "test", [&] { return lines[std::size_t(world.rank().value())]; });
    });
  };
  const std::vector<std::string> hosts = {" in process 0 on simulated-host-0", " in process 2 on simulated-host-2"};
  const std::string expected = "[trainer] expected the same in all processes, got ";
  using Messages = std::vector<std::string>;
  EXPECT_EQ(given({"a 1\nb 2\n", "a 1\nb 2\n", "a 1\nb 2\n"}), Messages(3, "nothing was thrown"));
  EXPECT_EQ(given({"a 1\nb 2\n", "a 1\nb 2\n", "a 1\nb 3\n"}),
            Messages(3, expected + "b 2" + hosts[0] + " and b 3" + hosts[1]));
  EXPECT_EQ(given({"a 1\nb 2\n", "a 1\nb 2\n", "a 1\n"}),
            Messages(3, expected + "b 2" + hosts[0] + " and nothing like it" + hosts[1]));
}

TEST(TrainProcesses, ThrowThatAFileIsDamaged) {
  const auto failures = in_processes(2, [&](const World& world) {
    all_or_throw(world, "test", [&]() -> std::string {
      if (world.is_first()) return "";
      FormatError error("a file", 12, "a wrong sum");
      error.add_context("in the header");
      throw error;
    });
  });
  const std::string message = "[a file] at byte 12: a wrong sum (in the header)";
  EXPECT_EQ(message_of<FormatError>(failures[1]), message);
  EXPECT_EQ(message_of<FormatError>(failures[0]), message + " (in process 1 on simulated-host-1)");
}

// In double, 1e16 + 1 is 1e16, so the result shows the order of the additions.
TEST(TrainProcesses, AddSumsByNameInTheOrderOfTheirRanks) {
  const std::vector<Report> given = {{.seconds = 1, .training = {{"loss", 1e16, 4}}},
                                     {.seconds = 2, .training = {{"only here", 3, 1}, {"loss", 1, 2}}},
                                     {.seconds = 3, .training = {{"loss", -1e16, 1}}, .validation = {{"loss", 5, 1}}}};
  std::vector<Report> all(3);
  in_processes(3, [&](const World& world) {
    const auto rank = std::size_t(world.rank().value());
    all[rank] = over_all_rows(world, given[rank]);
  });
  for (const Report& report : all) {
    EXPECT_EQ(report.seconds, 1);
    ASSERT_EQ(report.training.size(), 2u);
    EXPECT_EQ(report.training[0].name, "loss");
    EXPECT_EQ(report.training[0].total, (1e16 + 1) - 1e16);
    EXPECT_EQ(report.training[0].weight, 7);
    EXPECT_EQ(report.training[1].name, "only here");
    EXPECT_EQ(report.training[1].total, 3);
    ASSERT_EQ(report.validation.size(), 1u);
    EXPECT_EQ(report.validation[0].total, 5);
  }
}

}  // namespace
}  // namespace lockstep::train::detail
