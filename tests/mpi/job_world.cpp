// Jobs without failures: the common calls of all processes.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <thread>
#include <vector>

#include <lockstep/core/error.h>
#include <lockstep/distributed/mpi.h>
#include <lockstep/parallel/collectives.h>
#include <lockstep/runtime/communicator.h>
#include <lockstep/tensor/creation.h>

#include "core/text.h"
#include "distributed/transport.h"
#include "mpi/job.h"

namespace lockstep::testing {
namespace {

std::string of_rank(int rank, std::size_t bytes) { return std::string(bytes, char('a' + rank)); }

// Each process gives a text of another size: some larger than fits a frame (world.cpp), and some empty.
void gathers(const Arguments&) {
  const World world = mpi::join();
  const int rank = world.rank().value(), size = world.size();
  for (const std::size_t unit : {0, 1, 40, 60, 1000, 1'000'000}) {
    const std::vector<std::string> all = world.all_gather(of_rank(rank, unit * std::size_t(rank)));
    require(all.size() == std::size_t(size), "one text from each process");
    for (int p = 0; p < size; ++p)
      require(all[std::size_t(p)] == of_rank(p, unit * std::size_t(p)), text("the text of process ", p));
    require(world.broadcast(of_rank(rank, unit)) == of_rank(0, unit), "the text of process 0");
  }
  const std::vector<std::int64_t> numbers = world.all_gather(std::int64_t(rank) * rank - 1);
  for (int p = 0; p < size; ++p) require(numbers[std::size_t(p)] == std::int64_t(p) * p - 1, "the number of each");
  for (int round = 0; round < 100; ++round) world.barrier();
  say(world, "gathered on " + world.host(world.rank()));
}

// A barrier that the last process reaches late.
void late(const Arguments&) {
  const World world = mpi::join();
  const auto begin = std::chrono::steady_clock::now();
  if (world.rank().value() == world.size() - 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
  world.barrier();
  require(std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(290), "all wait for the last");
  say(world, "met");
}

// Thousands of messages in flight, on several channels, to and from all processes; received in another order of
// channels.
void messages(const Arguments&) {
  constexpr int kChannels = 3, kCount = 500;
  const World world = mpi::join();
  Transport& transport = *world.transport();
  const int rank = world.rank().value();
  std::vector<int> channels;
  for (int c = 0; c < kChannels; ++c) channels.push_back(transport.new_channels());
  struct Received {
    int from, channel, number;
    std::vector<int> data;
    PendingMessage message;
  };
  std::vector<Received> received;
  std::vector<std::vector<int>> data;
  std::vector<PendingMessage> sent;
  for (int peer = 0; peer < world.size(); ++peer) {
    if (peer == rank) continue;
    for (int number = 0; number < kCount; ++number)
      for (int c = 0; c < kChannels; ++c) {
        const std::vector<int>& one =
            data.emplace_back(std::size_t(number % 97 * (c + 1) + 3), rank * 100 + c + number);
        sent.push_back(transport.send(peer, channels[std::size_t(c)], one.data(), one.size() * sizeof(int)));
      }
    for (int c = kChannels; c-- > 0;)
      for (int number = 0; number < kCount; ++number) {
        Received& one = received.emplace_back(
            Received{peer, c, number, std::vector<int>(std::size_t(number % 97 * (c + 1) + 3)), nullptr});
        one.message = transport.receive(peer, channels[std::size_t(c)], one.data.data(), one.data.size() * sizeof(int));
      }
  }
  for (const PendingMessage& message : sent) message->wait("send");
  for (Received& one : received) {
    one.message->wait("receive");
    for (const int value : one.data)
      require(value == one.from * 100 + one.channel + one.number, "messages of a channel come in their order");
  }
  world.barrier();
  say(world, "all came in order");
}

// Messages larger than MPI is given at once, around the ring, both ways at the same time; and an empty one.
void large(const Arguments&) {
  constexpr std::size_t kCount = 50'000'001;  // times 4 bytes
  const World world = mpi::join();
  Transport& transport = *world.transport();
  const int rank = world.rank().value(), size = world.size();
  const int channel = transport.new_channels();
  std::vector<std::uint32_t> mine(kCount), theirs(kCount);
  for (std::size_t i = 0; i < kCount; ++i) mine[i] = std::uint32_t(i * 2654435761u) + std::uint32_t(rank);
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  const PendingMessage receiving = transport.receive(previous, channel, theirs.data(), kCount * 4);
  const PendingMessage nothing = transport.receive(previous, channel, nullptr, 0);
  transport.send(next, channel, mine.data(), kCount * 4)->wait("send");
  transport.send(next, channel, nullptr, 0)->wait("send");
  receiving->wait("receive");
  nothing->wait("receive");
  for (std::size_t i = 0; i < kCount; ++i)
    require(theirs[i] == std::uint32_t(i * 2654435761u) + std::uint32_t(previous), "every byte is the sender's");
  world.barrier();
  say(world, "all bytes came");
}

// In-place sums of one and of many pieces: equal to one process's sums in rank order.
void sums(const Arguments&) {
  const World world = mpi::join();
  const int rank = world.rank().value(), size = world.size();
  const Device cpu;
  Communicator communicator({cpu}, world);
  const auto value = [](int of, std::int64_t i) { return 1.0f / float(i % 97 + of + 1); };
  for (const std::int64_t count : {std::int64_t(1), std::int64_t(1001), std::int64_t(1'500'001)}) {
    std::vector<float> mine, sum;
    for (std::int64_t i = 0; i < count; ++i) {
      mine.push_back(value(rank, i));
      sum.push_back(value(0, i));
      for (int of = 1; of < size; ++of) sum.back() += value(of, i);
    }
    const auto changed = [&](const auto& change) {
      const Tensor all = tensor(mine);
      change(std::span(&all, 1));
      return all.to_vector<float>();
    };
    require(changed([&](auto tensors) { collective::all_reduce(communicator, tensors); }) == sum, "the sum for all");
    const int root = size / 2;
    require(
        changed([&](auto tensors) { collective::reduce(communicator, tensors, root); }) == (rank == root ? sum : mine),
        "the sum for one");
    std::vector<std::size_t> counts(std::size_t(size), std::size_t(count / size));
    counts.back() += std::size_t(count % size);
    const std::int64_t begin = count / size * rank, end = begin + std::int64_t(counts[std::size_t(rank)]);
    const auto scattered = changed([&](auto tensors) {
      auto* const data = tensors[0].template data<float>();
      const RankBuffers place = {current_stream(cpu), data, data + begin};
      communicator.reduce_scatter(std::span(&place, 1), counts, kFloat32);
    });
    require(std::equal(scattered.begin() + begin, scattered.begin() + end, sum.begin() + begin), "a shard of the sum");
  }
  say(world, "added up");
}

// Joins twice while a handle exists, and once more after.
void twice(const Arguments&) {
  {
    const World first = mpi::join(), second = mpi::join();
    require(first.transport() == second.transport(), "the same World");
    if (first.size() == 1) return say(second, "alone");
    second.barrier();
  }
  try {
    mpi::join();
  } catch (const InvalidArgument& error) {
    std::fprintf(stderr, "refused: %s\n", error.what());
    return;
  }
  require(false, "a process that left may not join again");
}

// Calls exit() while handles exist.
void exits(const Arguments&) {
  const World world = mpi::join();
  world.barrier();
  say(world, "exits");
  std::exit(0);
}

// A program that uses MPI itself, with the thread level in its argument.
void has_mpi(const Arguments& arguments) {
  int level = 0;
  MPI_Init_thread(nullptr, nullptr, arguments.at(0) == "multiple" ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED, &level);
  try {
    const World world = mpi::join();
    world.barrier();
    say(world, "joined");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());  // before any process ends: mpirun then kills all
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    std::exit(3);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
}

// Measures the processor time of an idle second.
void idle(const Arguments&) {
  const World world = mpi::join();
  world.barrier();
  const std::clock_t begin = std::clock();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const double share = double(std::clock() - begin) / CLOCKS_PER_SEC;
  world.barrier();
  require(share < 0.05, text("a process with nothing to do takes ", share, " of a core"));
  say(world, "was idle");
}

// The receiver expects another size than was sent.
void sizes(const Arguments& arguments) {
  const World world = mpi::join();
  char data[64] = {};
  const int channel = world.transport()->new_channels(), peer = 1 - world.rank().value();
  if (world.rank().value() == 1) world.transport()->send(peer, channel, data, 32)->wait("send");
  if (world.rank().value() == 0)
    world.transport()->receive(peer, channel, data, arguments.at(0) == "more" ? 64 : 16)->wait("receive");
  world.barrier();
}

}  // namespace

const std::map<std::string, Scenario>& world_scenarios() {
  static const std::map<std::string, Scenario> all = {
      {"gathers", gathers}, {"late", late},   {"messages", messages}, {"large", large},     {"sums", sums},
      {"twice", twice},     {"exits", exits}, {"idle", idle},         {"has_mpi", has_mpi}, {"sizes", sizes}};
  return all;
}

}  // namespace lockstep::testing
