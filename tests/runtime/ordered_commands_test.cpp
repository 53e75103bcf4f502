// Commands that all processes execute in one order.
#include "distributed/ordered_commands.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <lockstep/core/error.h>

#include "support/ending_processes.h"
#include "support/in_processes.h"
#include "support/must_end.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using Command = OrderedCommands::Command;

// Keeps the commands in the order of their execution.
struct Keeper final : OrderedCommands::Executor {
  void execute(const Command& command) override {
    const std::scoped_lock lock(mutex);
    if (command[0] == -1) throw std::runtime_error("it was the forbidden command");
    executed.push_back(command);
    changed.notify_all();
  }
  void has_failed() noexcept override {
    const std::scoped_lock lock(mutex);
    failed = true;
    changed.notify_all();
  }
  bool await(const Command& command) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return failed || std::ranges::find(executed, command) != executed.end(); });
    return !failed;
  }
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Command> executed;
  bool failed = false;
};

TEST(OrderedCommands, AreExecutedInOneOrderByAllWhoeverAsks) {
  for (const int processes : {2, 3, 8}) {
    std::vector<std::vector<Command>> of_each(static_cast<std::size_t>(processes));
    const auto failures = testing::in_ending_processes(processes, 3, [&](const World& world) {
      Keeper keeper;
      const int rank = world.rank().value();
      {
        OrderedCommands commands(world, keeper, "test");
        std::mt19937 random(static_cast<unsigned>(rank));
        for (int i = 0; i < 20; ++i) {
          const Command command = {rank, i, std::int64_t(random()), 0};
          commands.want(command);
          if (i % 3 == rank % 3) {
            EXPECT_TRUE(keeper.await(command));
          }
        }
      }
      of_each[std::size_t(rank)] = keeper.executed;
    });
    for (const auto& failure : failures) EXPECT_FALSE(failure);
    EXPECT_EQ(of_each[0].size(), std::size_t(20 * processes));  // all, because each waits for the others to leave
    for (const auto& each : of_each) EXPECT_EQ(each, of_each[0]);
  }
}

TEST(OrderedCommands, AreExecutedOnceForAllThatAskAtTheSameTime) {
  std::atomic<std::size_t> executed = 0;
  const auto failures = testing::in_processes(4, [&](const World& world) {
    Keeper keeper;
    {
      OrderedCommands commands(world, keeper, "test");
      for (int i = 0; i < 50; ++i) {
        commands.want({i});
        EXPECT_TRUE(keeper.await({i}));
      }
    }
    executed = keeper.executed.size();
  });
  for (const auto& failure : failures) EXPECT_FALSE(failure);
  EXPECT_GE(executed, 50u);
  EXPECT_LT(executed, 200u);
}

TEST(OrderedCommands, AreExecutedAgainForOneThatAsksAfterItHasExecutedThem) {
  const auto failures = testing::in_processes(2, [&](const World& world) {
    Keeper keeper;
    {
      OrderedCommands commands(world, keeper, "test");
      if (world.is_first()) {
        commands.want({1});
        EXPECT_TRUE(keeper.await({1}));
        commands.want({2});
        EXPECT_TRUE(keeper.await({2}));  // so the first one is done
        commands.want({1});
      }
    }
    EXPECT_EQ(keeper.executed, (std::vector<Command>{{1}, {2}, {1}}));
  });
  for (const auto& failure : failures) EXPECT_FALSE(failure);
}

TEST(OrderedCommands, ThatAllAskForTogetherComeWhenTheLastHasAsked) {
  std::atomic<int> asked = 0;
  const auto failures = testing::in_processes(3, [&](const World& world) {
    Keeper keeper;
    OrderedCommands commands(world, keeper, "test");
    if (world.rank().value() == 1) std::this_thread::sleep_for(50ms);
    ++asked;
    commands.want_together({7});
    EXPECT_TRUE(keeper.await({7}));
    EXPECT_EQ(asked, 3);
  });
  for (const auto& failure : failures) EXPECT_FALSE(failure);
}

TEST(OrderedCommands, AreServedByAProcessThatHasItsEndBeforeIt) {
  const auto failures = testing::in_processes(2, [&](const World& world) {
    Keeper keeper;
    OrderedCommands commands(world, keeper, "test");
    if (world.is_first()) return;
    for (int i = 0; i < 10; ++i) {
      std::this_thread::sleep_for(2ms);
      commands.want({i});
      EXPECT_TRUE(keeper.await({i}));
    }
  });
  for (const auto& failure : failures) EXPECT_FALSE(failure);
}

TEST(OrderedCommands, FailInAllProcessesIfTheyFailInOne) {
  testing::must_end({[] {
    const auto failures = testing::in_processes(3, [&](const World& world) {
      Keeper keeper;
      OrderedCommands commands(world, keeper, "test of failures");
      if (world.rank().value() == 2) commands.want({-1});
      EXPECT_FALSE(keeper.await({0}));
      std::rethrow_exception(commands.failure());
    });
    for (const auto& failure : failures) {
      std::string message = testing::message_of<CollectiveError>(failure);
      if (message.find("CollectiveError") != std::string::npos)
        message = testing::message_of<std::runtime_error>(failure);
      EXPECT_NE(message.find("the forbidden command"), std::string::npos) << message;
    }
  }});
}

TEST(OrderedCommands, EndInTimeIfAProcessNeverLeaves) {
  testing::must_end({[] {
    const auto failures = testing::in_processes(
        2,
        [&](const World& world) {
          Keeper keeper;
          std::optional<OrderedCommands> commands(std::in_place, world, keeper, "test");
          if (!world.is_first()) std::this_thread::sleep_for(1s);
          commands.reset();
          EXPECT_NE(world.transport()->failure().value_or("").find("process 0 on simulated-host-0 has ended its test"),
                    std::string::npos);
        },
        200ms);
    for (const auto& failure : failures) EXPECT_FALSE(failure);
  }});
}

}  // namespace
}  // namespace lockstep
