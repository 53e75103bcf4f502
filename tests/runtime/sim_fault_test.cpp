// Errors of asynchronous work, injected or thrown by a kernel: they stay with their stream, propagate through events,
// reach the host once, and leave everything working.
#include <lockstep/core/error.h>

#include <chrono>
#include <future>
#include <stdexcept>

#include "core/text.h"
#include "runtime/sim_fixture.h"

namespace lockstep::sim {
namespace {

using Floats = std::vector<float>;

TEST(SimFault, TheNthLaunchFailsWhereTheHostSynchronizes) {
  Simulation sim;
  float* const data = sim.allocate(1, 2);
  sim.fill(sim.stream(1), data, 2, 1);  // before the fault: not counted
  sim.backend.inject(FaultKind::launch, {.device = 1, .nth = 2});
  sim.add(sim.stream(1), data, 2, 1);
  sim.add(sim.stream(1), data, 2, 1);  // fails
  sim.add(sim.stream(1), data, 2, 1);  // skipped
  try {
    sim.backend.synchronize_stream(sim.stream(1));
    FAIL() << "no error";
  } catch (const BackendError& error) {
    EXPECT_EQ(error.api, "add");
    EXPECT_EQ(error.code, kLaunchFailure);
    EXPECT_EQ(error.device, "cuda:1");
  }
  sim.backend.synchronize_stream(sim.stream(1));  // reported once only
  EXPECT_EQ(sim.receive(sim.stream(1), data, 2), Floats(2, 2));
}

TEST(SimFault, SeveralInARowFail) {
  Simulation sim;
  sim.backend.inject(FaultKind::launch, {.nth = 2, .count = 2});
  std::vector<bool> failed;
  for (int i = 0; i < 4; ++i) {
    sim.launch(sim.stream(), "step", {}, [](const KernelContext&) {});
    failed.push_back(message_of<BackendError>([&] { sim.backend.synchronize_stream(sim.stream()); }) != "no error");
  }
  EXPECT_EQ(failed, (std::vector<bool>{false, true, true, false}));
}

TEST(SimFault, AMatrixProductCountsAsALaunch) {
  Simulation sim;
  float* const x = sim.allocate(0, 1);
  sim.backend.inject(FaultKind::launch, {});
  sim.backend.matmul(sim.stream(), {.m = 1, .n = 1, .k = 1, .a = x, .b = x, .c = x, .lda = 1, .ldb = 1, .ldc = 1});
  EXPECT_THROW(sim.backend.synchronize_stream(sim.stream()), BackendError);
}

TEST(SimFault, AFailedCopyToTheHostThrowsAtOnce) {
  Simulation sim;
  float* const data = sim.allocate(0, 2);
  sim.fill(sim.stream(), data, 2, 3);
  sim.backend.inject(FaultKind::copy, {});
  EXPECT_THROW(sim.receive(sim.stream(), data, 2), BackendError);
  EXPECT_EQ(sim.receive(sim.stream(), data, 2), Floats(2, 3));
}

TEST(SimFault, AFailedCopyFromTheHostThrowsAtTheNextSynchronization) {
  Simulation sim;
  float* const data = sim.allocate(0, 2);
  sim.backend.inject(FaultKind::copy, {});
  sim.send(sim.stream(), data, {1, 2});
  EXPECT_THROW(sim.receive(sim.stream(), data, 2), BackendError);
}

TEST(SimFault, AnAllocationIsRefused) {
  Simulation sim;
  sim.backend.inject(FaultKind::allocation, {.device = 1, .nth = 2});
  EXPECT_TRUE(sim.backend.admits(1, 8));
  EXPECT_TRUE(sim.backend.admits(0, 8));
  EXPECT_FALSE(sim.backend.admits(1, 8));
  EXPECT_TRUE(sim.backend.admits(1, 8));
}

TEST(SimFault, ALostDeviceFailsEverythingUntilItIsBack) {
  Simulation sim;
  float* const data = sim.allocate(0, 2);
  sim.backend.inject(FaultKind::loss, {.nth = 2});
  sim.fill(sim.stream(), data, 2, 1);
  EXPECT_THROW(sim.receive(sim.stream(), data, 2), BackendError);
  for (int i = 0; i < 3; ++i) {
    sim.fill(sim.stream(0, 1), data, 2, 1);
    try {
      sim.backend.synchronize_stream(sim.stream(0, 1));
      FAIL() << "no error";
    } catch (const BackendError& error) {
      EXPECT_EQ(error.code, kDeviceLost);
    }
  }
  EXPECT_THROW(sim.backend.admits(0, 8), BackendError);
  EXPECT_THROW(sim.allocate(0, 8), BackendError);
  EXPECT_NE(sim.allocate(1, 8), nullptr);
  sim.backend.clear_faults();
  sim.fill(sim.stream(), data, 2, 5);
  EXPECT_EQ(sim.receive(sim.stream(), data, 2), Floats(2, 5));
}

TEST(SimFault, AnExceptionOfAKernelKeepsItsType) {
  Simulation sim;
  sim.launch(sim.stream(), "check", {}, [](const KernelContext&) { throw std::out_of_range("class 12 of 10"); });
  EXPECT_EQ(message_of<std::out_of_range>([&] { sim.backend.synchronize_stream(sim.stream()); }), "class 12 of 10");
}

TEST(SimFault, AnErrorTravelsWithEvents) {
  Simulation sim;
  float* const data = sim.allocate(0, 1);
  const StreamHandle first = sim.stream(0, 0), second = sim.stream(1, 0), third = sim.stream(0, 1);
  sim.fill(third, data, 1, 1);
  sim.backend.inject(FaultKind::launch, {});
  sim.launch(first, "source", {}, [](const KernelContext&) {});
  order(sim, first, second);
  order(sim, second, third);
  sim.add(third, data, 1, 1);  // skipped
  const std::string message = message_of<BackendError>([&] { sim.backend.synchronize_stream(third); });
  EXPECT_TRUE(contains(message, "[source] failed on cuda:0")) << message;
  for (const StreamHandle stream : {first, second, third}) sim.backend.synchronize_stream(stream);
  EXPECT_EQ(sim.receive(third, data, 1), Floats{1});
}

TEST(SimFault, AnErrorDoesNotTravelToWhatCameBeforeIt) {
  Simulation sim;
  const ScopedEvent event(sim.backend);
  sim.launch(sim.stream(0, 0), "fine", {}, [](const KernelContext&) {});
  sim.backend.record(event, sim.stream(0, 0));
  sim.backend.inject(FaultKind::launch, {});
  sim.launch(sim.stream(0, 0), "broken", {}, [](const KernelContext&) {});
  sim.backend.wait(sim.stream(0, 1), event);
  sim.backend.synchronize_stream(sim.stream(0, 1));
  sim.backend.synchronize_event(event);
  EXPECT_THROW(sim.backend.synchronize_stream(sim.stream(0, 0)), BackendError);
}

TEST(SimFault, EventsOfAFailedStreamComplete) {
  Simulation sim;
  const ScopedEvent event(sim.backend);
  sim.backend.inject(FaultKind::launch, {});
  sim.launch(sim.stream(), "broken", {}, [](const KernelContext&) {});
  sim.backend.record(event, sim.stream());
  while (!sim.backend.query_event(event)) std::this_thread::yield();  // a query clears no error
  EXPECT_THROW(sim.backend.synchronize_event(event), BackendError);
  sim.backend.synchronize_stream(sim.stream());
}

// For example a device of another simulated process, whose work waits for this host.
TEST(SimFault, IsReportedWhileADeviceWithoutTiesToTheFailedOneWorks) {
  Simulation sim;
  std::promise<void> gate = sim.block(sim.stream(1));
  sim.backend.inject(FaultKind::launch, {.device = 0});
  sim.launch(sim.stream(0), "step", {}, [](const KernelContext&) {});
  const auto reported = std::async(std::launch::async,
                                   [&] { EXPECT_THROW(sim.backend.synchronize_stream(sim.stream(0)), BackendError); });
  EXPECT_EQ(reported.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  gate.set_value();
}

TEST(SimFault, IsReportedOnlyAfterWorkOfOtherDevicesThatDependsOnItIsSkipped) {
  Simulation sim;
  float* const data = sim.allocate(1, 1);
  sim.fill(sim.stream(1), data, 1, 5);
  std::promise<void> gate = sim.block(sim.stream(1));
  sim.backend.inject(FaultKind::launch, {.device = 0});
  sim.launch(sim.stream(0), "step", {}, [](const KernelContext&) {});
  order(sim, sim.stream(0), sim.stream(1));
  sim.add(sim.stream(1), data, 1, 1);
  const auto reported = std::async(std::launch::async,
                                   [&] { EXPECT_THROW(sim.backend.synchronize_stream(sim.stream(0)), BackendError); });
  EXPECT_EQ(reported.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  gate.set_value();
  reported.wait();
  EXPECT_EQ(sim.receive(sim.stream(1), data, 1), Floats(1, 5));
}

TEST(SimFault, QueryingAStreamThrowsItsError) {
  Simulation sim;
  sim.backend.inject(FaultKind::launch, {});
  sim.launch(sim.stream(), "broken", {}, [](const KernelContext&) {});
  EXPECT_THROW(while (!sim.backend.query_stream(sim.stream())) std::this_thread::yield(), BackendError);
  EXPECT_TRUE(sim.backend.query_stream(sim.stream()));
}

TEST(SimFault, TwoThreadsThatSeeOneErrorGetTheirOwnException) {
  for (int round = 0; round < 50; ++round) {
    Simulation sim;
    sim.backend.inject(FaultKind::launch, {});
    const StreamHandle streams[] = {sim.stream(0), sim.stream(1)};
    std::promise<void> gate = sim.block(streams[1]);
    sim.launch(streams[0], "broken", {}, [](const KernelContext&) {});
    order(sim, streams[0], streams[1]);
    std::atomic<int> told = 0;
    std::vector<std::thread> threads;
    for (const StreamHandle stream : streams)
      threads.emplace_back([&sim, &told, stream] {
        try {
          sim.backend.synchronize_stream(stream);
        } catch (Error& error) {
          error.add_context("seen");
          EXPECT_TRUE(contains(error.what(), "[broken] failed on cuda:0 with code 719: an injected fault (seen)"))
              << error.what();
          ++told;
        }
      });
    gate.set_value();
    for (std::thread& thread : threads) thread.join();
    EXPECT_GE(told, 1);
  }
}

// The first of these threads clears the error, and the others may check for it only after that.
TEST(SimFault, EveryCopyToTheHostThatWasSkippedThrows) {
  constexpr int kCopies = 8;
  for (const FaultKind kind : {FaultKind::launch, FaultKind::copy})
    for (int round = 0; round < 20; ++round) {
      Simulation sim;
      const StreamHandle stream = sim.stream();
      float* const data = sim.allocate(0, 1);
      std::promise<void> gate = sim.block(stream);
      sim.backend.inject(kind, {.count = kCopies});
      sim.fill(stream, data, 1, 1);
      std::vector<std::future<std::string>> messages;
      for (int i = 0; i < kCopies; ++i)
        messages.push_back(std::async(std::launch::async,
                                      [&] { return message_of<BackendError>([&] { sim.receive(stream, data, 1); }); }));
      while (sim.backend.counts(0).copies < kCopies) std::this_thread::yield();
      gate.set_value();
      for (std::future<std::string>& message : messages)
        EXPECT_EQ(message.get(), text("[", kind == FaultKind::launch ? "fill" : "copy",
                                      "] failed on cuda:0 with code 719: an injected fault"))
            << "round " << round;
    }
}

TEST(SimFault, EveryLaunchOfARelayMayFailAndTheNextRelayIsRight) {
  Simulation sim;
  float* const data[] = {sim.allocate(0, 4), sim.allocate(1, 4)};
  const auto relay = [&] {
    sim.fill(sim.stream(0), data[0], 4, 1);
    for (int step = 0; step < 4; ++step) {
      const int from = step % 2, to = 1 - from;
      order(sim, sim.stream(from), sim.stream(to));
      sim.send_peer(sim.stream(to), data[to], to, data[from], from, 4);
      sim.add(sim.stream(to), data[to], 4, 1);
    }
    return sim.receive(sim.stream(0), data[0], 4);
  };
  EXPECT_EQ(relay(), Floats(4, 5));
  for (const FaultKind kind : {FaultKind::launch, FaultKind::copy, FaultKind::loss})
    for (int device = 0; device < 2; ++device)
      for (std::uint64_t nth = 1; nth <= 2; ++nth) {
        sim.backend.inject(kind, {.device = device, .nth = nth});
        EXPECT_THROW(relay(), BackendError) << int(kind) << ' ' << device << ' ' << nth;
        sim.backend.clear_faults();
        EXPECT_EQ(relay(), Floats(4, 5));
      }
}

TEST(SimFault, AFaultNamesAnExistingDeviceAndAnOperationFromOne) {
  Simulation sim;
  EXPECT_THROW(sim.backend.inject(FaultKind::launch, {.device = 2}), InvalidArgument);
  EXPECT_THROW(sim.backend.inject(FaultKind::launch, {.device = -1}), InvalidArgument);
  EXPECT_THROW(sim.backend.inject(FaultKind::launch, {.nth = 0}), InvalidArgument);
  EXPECT_THROW(sim.backend.inject(FaultKind::launch, {.count = 0}), InvalidArgument);
}

}  // namespace
}  // namespace lockstep::sim
