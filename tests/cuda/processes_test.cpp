// Collectives of several processes' cards on a fake CUDA and a fake NCCL: each process is a thread with its own
// backend. A failure that ends one process ends all.
#include <chrono>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <lockstep/core/error.h>

#include "backends/cuda/cuda_stream.h"
#include "cuda/fake_devices.h"
#include "distributed/transport.h"
#include "runtime/collectives/collective_call.h"
#include "support/in_processes.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using testing::in_processes;
using testing::message_of;

constexpr int kCards = 2;  // per process
constexpr milliseconds kLimit(500);

// One process's cards, and their communicator with the other processes' cards.
class ProcessRanks {
 public:
  explicit ProcessRanks(const World& world) : ProcessRanks(world, cards_of(world)) {}
  ProcessRanks(const World& world, const std::vector<int>& cards)
      : devices_(make_cuda_backend({.cards = cards, .deterministic = false})) {
    Peers peers;
    peers.transport = world.transport();
    peers.process = std::size_t(world.rank().value());
    peers.devices.assign(std::size_t(world.size()), cards.size());
    first_rank_ = peers.first_rank();
    ranks_ = peers.size();
    std::vector<int> indices(cards.size());
    std::iota(indices.begin(), indices.end(), 0);
    communicator_ = backend().create_communicator(indices, peers, {});
  }
  ~ProcessRanks() {
    backend().destroy_communicator(communicator_);
    for (const Memory& memory : memory_) devices_.state(memory.device).allocator.free(memory.allocation.block);
  }
  ProcessRanks(const ProcessRanks&) = delete;

  int first_rank() const { return int(first_rank_); }
  int ranks() const { return int(ranks_); }
  Backend& backend() { return devices_.backend(); }
  StreamHandle stream(int device) { return devices_.state(device).stream(1); }

  float* memory(int device, const std::vector<float>& values) {
    const std::size_t bytes = values.size() * sizeof(float);
    Memory& made =
        memory_.emplace_back(Memory{device, devices_.state(device).allocator.allocate(bytes, stream(device))});
    backend().copy(stream(device),
                   {.to = made.allocation.memory, .from = values.data(), .to_device = device, .row_bytes = bytes});
    return static_cast<float*>(made.allocation.memory);
  }
  std::vector<float> read(int device, const float* memory, std::size_t count) {
    std::vector<float> values(count);
    backend().copy(stream(device),
                   {.to = values.data(), .from = memory, .from_device = device, .row_bytes = count * sizeof(float)});
    return values;
  }

  // Runs a collective in which rank r sends send(r) and has room for `room` elements; returns each rank's result.
  template <class Send>
  std::vector<std::vector<float>> run(CollectiveCall call, const Send& send, std::size_t room) {
    std::vector<CollectivePart> parts;
    for (int device = 0; device < kCards; ++device)
      parts.push_back(
          {stream(device), memory(device, send(first_rank() + device)), memory(device, std::vector<float>(room, -1))});
    enqueue(call, parts);
    std::vector<std::vector<float>> results;
    for (int device = 0; device < kCards; ++device)
      results.push_back(read(device, static_cast<const float*>(parts[std::size_t(device)].receive), room));
    return results;
  }

  void enqueue(CollectiveCall call, const std::vector<CollectivePart>& parts) {
    call.parts = parts;
    call.first_rank = first_rank_;
    call.ranks = ranks_;
    for (const std::size_t count : call.counts) call.count += count;
    check(call);
    backend().collective(communicator_, call);
  }

  // Enqueues an all-reduce and waits for it.
  void all_reduce(std::size_t count) {
    run(
        {.kind = CollectiveKind::all_reduce, .name = "all_reduce", .op = ReduceOp::sum, .count = count},
        [&](int) { return std::vector<float>(count, 1); }, count);
  }

  static std::vector<int> cards_of(const World& world) {
    return {kCards * world.rank().value(), kCards * world.rank().value() + 1};
  }

 private:
  struct Memory {
    int device;
    CachingAllocator::Allocation allocation;
  };

  DeviceSet devices_;
  std::vector<Memory> memory_;
  std::size_t first_rank_ = 0, ranks_ = 0;
  CommunicatorHandle communicator_ = nullptr;
};

void expect_all_succeeded(const std::vector<std::exception_ptr>& failures) {
  for (const std::exception_ptr& failure : failures)
    if (failure) ADD_FAILURE() << message_of<Error>(failure);
}

void expect_says(const std::exception_ptr& failure, const std::vector<std::string>& words) {
  const std::string message = message_of<CollectiveError>(failure);
  for (const std::string& word : words) EXPECT_NE(message.find(word), std::string::npos) << word << " in " << message;
}

class FakeProcesses : public ::testing::Test {
 protected:
  FakeDevices devices{{.cards = {0}}, 6};  // each process takes its own
};

using Values = std::vector<float>;

TEST_F(FakeProcesses, SumOverTheCardsOfAll) {
  for (const int count : {2, 3})
    expect_all_succeeded(in_processes(count, [](const World& world) {
      ProcessRanks ranks(world);
      const int all = ranks.ranks();
      const auto of_rank = [](int rank) { return Values{float(rank), float(10 * rank), 1}; };
      const float sum = float(all * (all - 1) / 2);
      for (const Values& result :
           ranks.run({.kind = CollectiveKind::all_reduce, .name = "all_reduce", .count = 3}, of_rank, 3))
        EXPECT_EQ(result, (Values{sum, 10 * sum, float(all)}));
    }));
  EXPECT_EQ(machine().connections, 2) << "one id for each communicator, process 0's";
}

TEST_F(FakeProcesses, CountRanksOverAllProcesses) {
  expect_all_succeeded(in_processes(2, [](const World& world) {
    ProcessRanks ranks(world);
    const auto of_rank = [](int rank) { return Values{float(rank), float(10 * rank)}; };
    for (int root = 0; root < 4; ++root) {
      const auto heard =
          ranks.run({.kind = CollectiveKind::broadcast, .name = "broadcast", .count = 2, .root = root}, of_rank, 2);
      for (const Values& result : heard) EXPECT_EQ(result, of_rank(root));
      const auto reduced =
          ranks.run({.kind = CollectiveKind::reduce, .name = "reduce", .count = 2, .root = root}, of_rank, 2);
      for (int device = 0; device < kCards; ++device)
        EXPECT_EQ(reduced[std::size_t(device)],
                  ranks.first_rank() + device == root ? (Values{6, 60}) : (Values{-1, -1}));
    }
  }));
}

TEST_F(FakeProcesses, GiveEachRankItsShare) {
  expect_all_succeeded(in_processes(2, [](const World& world) {
    ProcessRanks ranks(world);
    for (const std::vector<std::size_t>& counts : {std::vector<std::size_t>{2, 2, 2, 2}, {1, 0, 3, 2}}) {
      const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t(0));
      const auto whole = [&](int rank) {
        Values values(total);
        std::iota(values.begin(), values.end(), float(100 * rank));
        return values;
      };
      const auto scattered =
          ranks.run({.kind = CollectiveKind::reduce_scatter, .name = "reduce_scatter", .counts = counts}, whole, 3);
      const auto gathered = ranks.run(
          {.kind = CollectiveKind::all_gather, .name = "all_gather", .counts = counts},
          [&](int rank) { return Values(3, float(rank)); }, total);
      Values all;
      for (std::size_t rank = 0; rank < counts.size(); ++rank) all.insert(all.end(), counts[rank], float(rank));
      for (int device = 0; device < kCards; ++device) {
        const std::size_t rank = std::size_t(ranks.first_rank() + device);
        const std::size_t begin = std::accumulate(counts.begin(), counts.begin() + long(rank), std::size_t(0));
        Values share(3, -1);
        for (std::size_t i = 0; i < counts[rank]; ++i) share[i] = 600 + 4 * float(begin + i);
        EXPECT_EQ(scattered[std::size_t(device)], share) << "rank " << rank;
        EXPECT_EQ(gathered[std::size_t(device)], all);
      }
    }
  }));
}

TEST_F(FakeProcesses, SendToEachOther) {
  expect_all_succeeded(in_processes(2, [](const World& world) {
    ProcessRanks ranks(world);
    std::vector<CollectivePart> parts;
    std::vector<float*> receive;
    std::vector<Transfer> transfers;
    for (int rank = 0; rank < 4; ++rank) transfers.push_back({rank, (rank + 1) % 4, nullptr, nullptr, 1});
    for (int device = 0; device < kCards; ++device) {
      const int rank = ranks.first_rank() + device;
      parts.push_back({ranks.stream(device)});
      transfers[std::size_t(rank)].send = ranks.memory(device, {float(rank)});
      receive.push_back(ranks.memory(device, {-1}));
      transfers[std::size_t((rank + 3) % 4)].receive = receive.back();
    }
    ranks.enqueue({.kind = CollectiveKind::send_receive, .name = "send_receive", .transfers = transfers}, parts);
    ranks.enqueue({.kind = CollectiveKind::barrier, .name = "barrier"}, parts);
    for (int device = 0; device < kCards; ++device)
      EXPECT_EQ(ranks.read(device, receive[std::size_t(device)], 1),
                Values{float((ranks.first_rank() + device + 3) % 4)});
  }));
}

TEST_F(FakeProcesses, WithoutOneThatNeverConnectsEndInTime) {
  for (const int absent : {0, 1}) {
    const auto begin = std::chrono::steady_clock::now();
    const auto failures = in_processes(
        2,
        [&](const World& world) {
          if (world.rank().value() != absent) ProcessRanks ranks(world);
        },
        kLimit);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, kLimit + std::chrono::seconds(5));
    if (absent == 0) expect_says(failures[1], {"process 0 on simulated-host-0", "connecting NCCL", "500 ms"});
    if (absent == 1) expect_says(failures[0], {"[connect]", "within 500 ms", "process 0 on simulated-host-0"});
  }
}

TEST_F(FakeProcesses, EndWithOneThatDiesInACollective) {
  for (const int victim : {0, 1}) {
    const auto begin = std::chrono::steady_clock::now();
    const auto failures = in_processes(2, [&](const World& world) {
      ProcessRanks ranks(world);
      ranks.all_reduce(4);
      if (world.rank().value() != victim) return ranks.all_reduce(4);
      world.transport()->fail("the other one is lost");  // as MPI's transport does
    });
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
    expect_says(failures[std::size_t(1 - victim)],
                {"[all_reduce]", "16 bytes", "the other one is lost", "process " + std::to_string(1 - victim)});
  }
}

TEST_F(FakeProcesses, WithoutOneThatDoesNotComeEndInTimeAndStayEnded) {
  const auto failures = in_processes(
      2,
      [&](const World& world) {
        ProcessRanks ranks(world);
        ranks.all_reduce(4);
        if (world.rank().value() == 1) {
          std::this_thread::sleep_for(kLimit * 2);
          return ranks.all_reduce(4);
        }
        EXPECT_THROW(ranks.all_reduce(4), CollectiveError);
        ranks.all_reduce(4);
      },
      kLimit);
  for (const std::exception_ptr& failure : failures)
    expect_says(failure, {"[all_reduce]", "within 500 ms", "of process 0 on simulated-host-0"});
  EXPECT_EQ(machine().connections, 1) << "a job that has failed is over";
}

// The time in which a process waits for its own ranks' earlier work does not count for the limit.
TEST_F(FakeProcesses, DoNotCountTheTimeOfWorkBefore) {
  expect_all_succeeded(in_processes(
      2,
      [&](const World& world) {
        ProcessRanks ranks(world);
        const auto end = std::chrono::steady_clock::now() + kLimit * 2;
        for (int device = 0; device < kCards; ++device)
          fake::enqueue(
              gpu::stream_of(ranks.stream(device)).stream.get(), [] {},
              [end] { return std::chrono::steady_clock::now() > end; });
        ranks.all_reduce(4);
      },
      kLimit));
}

TEST_F(FakeProcesses, ThatDoNotAgreeOnASizeEndInTime) {
  const auto failures = in_processes(
      2,
      [](const World& world) {
        ProcessRanks ranks(world);
        ranks.all_reduce(world.rank().value() == 0 ? 4 : 5);
      },
      kLimit);
  for (const std::exception_ptr& failure : failures)
    expect_says(failure, {"[all_reduce]", "or they called it with different counts, dtypes or roots"});
}

TEST_F(FakeProcesses, HearOfACardThatFailsElsewhere) {
  const auto failures = in_processes(2, [](const World& world) {
    ProcessRanks ranks(world);
    ranks.all_reduce(4);
    if (world.rank().value() == 1) return ranks.all_reduce(4);
    std::vector<CollectivePart> parts;
    for (int device = 0; device < kCards; ++device) {
      float* const memory = ranks.memory(device, Values(4));
      parts.push_back({ranks.stream(device), memory, memory});
    }
    {
      const auto held = fake::lock();
      machine().collectives_hang = true;  // nothing ends from now on
    }
    ranks.enqueue({.kind = CollectiveKind::all_reduce, .name = "all_reduce", .count = 4}, parts);
    {
      const auto held = fake::lock();
      machine().trapped[1] = "a kernel stopped";
    }
    ranks.backend().synchronize_stream(ranks.stream(0));
  });
  machine().trapped.clear();
  for (const std::exception_ptr& failure : failures)
    expect_says(failure, {"[all_reduce]", "a kernel stopped", "cuda:1 of process 0 on simulated-host-0"});
}

TEST_F(FakeProcesses, WithSeveralDevicesOnACardAreRefusedAndTheOthersHearOfIt) {
  const auto failures = in_processes(2, [](const World& world) {
    ProcessRanks ranks(world, world.rank().value() == 0 ? std::vector{0, 0} : ProcessRanks::cards_of(world));
  });
  EXPECT_NE(message_of<InvalidArgument>(failures[0]).find("a card for each device"), std::string::npos);
  expect_says(failures[1], {"a card for each device"});
}

}  // namespace
}  // namespace lockstep
