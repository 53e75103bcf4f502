// Jobs that fail, by a signal from outside or in the process that the first argument names.
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <thread>

#include <lockstep/distributed/mpi.h>

#include "core/text.h"
#include "distributed/transport.h"
#include "mpi/job.h"

namespace lockstep::testing {
namespace {

void greet(const World& world) {
  world.barrier("greeting");
  say(world, text("pid ", ::getpid()));
}

// Sends messages of many sizes around the ring, then makes collective calls.
void one_round(const World& world, int channel, int round) {
  static std::array<std::vector<char>, 2> buffers;
  const std::size_t bytes = std::size_t(round % 7) * std::size_t(round % 7) * 10'000 + 1;
  for (std::vector<char>& buffer : buffers) buffer.resize(bytes);
  const int rank = world.rank().value(), size = world.size();
  const PendingMessage received =
      world.transport()->receive((rank + size - 1) % size, channel, buffers[0].data(), bytes);
  const PendingMessage sent = world.transport()->send((rank + 1) % size, channel, buffers[1].data(), bytes);
  sent->wait("ring");
  received->wait("ring");
  world.all_gather(std::string(std::size_t(round % 100), 'x'), "gathering");
}

void loops(const Arguments&) {
  const World world = mpi::join();
  const int channel = world.transport()->new_channels();
  greet(world);
  for (int round = 0;; ++round) one_round(world, channel, round);
}

// All processes but one wait for that one.
void waits(const Arguments& arguments) {
  const World world = mpi::join();
  greet(world);
  if (world.rank().value() == std::atoi(arguments.at(0).c_str())) std::this_thread::sleep_for(std::chrono::minutes(5));
  world.barrier("the barrier that one does not come to");
}

// No process waits for another.
void computes(const Arguments&) {
  const World world = mpi::join();
  greet(world);
  std::this_thread::sleep_for(std::chrono::minutes(5));
}

template <class GoWrong>
void all_but_one_loop(const Arguments& arguments, const GoWrong& go_wrong) {
  const World world = mpi::join();
  const int channel = world.transport()->new_channels();
  greet(world);
  const bool is_the_one = world.rank().value() == std::atoi(arguments.at(0).c_str());
  for (int round = 0;; ++round) {
    if (is_the_one && round == std::atoi(arguments.at(1).c_str())) return go_wrong(world);
    one_round(world, channel, round);
  }
}

void leaves(const Arguments& arguments) {
  all_but_one_loop(arguments, [](const World&) {});
}
void exits_early(const Arguments& arguments) {
  all_but_one_loop(arguments, [](const World&) { std::exit(0); });
}
void throws(const Arguments& arguments) {
  all_but_one_loop(arguments, [](const World&) { throw std::runtime_error("what only one process meets"); });
}
void terminates(const Arguments& arguments) {
  all_but_one_loop(arguments,
                   [](const World&) { std::thread([] { throw std::runtime_error("what nobody catches"); }).join(); });
}
void ends_without_a_word(const Arguments& arguments) {
  all_but_one_loop(arguments, [](const World&) { std::_Exit(0); });
}
void gives_up(const Arguments& arguments) {
  all_but_one_loop(arguments, [](const World& world) {
    world.transport()->fail("a card was lost");
    world.barrier("after it");
  });
}
void drops_a_message(const Arguments& arguments) {
  all_but_one_loop(arguments, [](const World& world) {
    char data = 0;
    world.transport()->receive(1 - world.rank().value(), 77, &data, 1);
    world.barrier("after it");
  });
}

}  // namespace

const std::map<std::string, Scenario>& failure_scenarios() {
  static const std::map<std::string, Scenario> all = {{"loops", loops},
                                                      {"waits", waits},
                                                      {"computes", computes},
                                                      {"leaves", leaves},
                                                      {"exits_early", exits_early},
                                                      {"throws", throws},
                                                      {"terminates", terminates},
                                                      {"ends_without_a_word", ends_without_a_word},
                                                      {"gives_up", gives_up},
                                                      {"drops_a_message", drops_a_message}};
  return all;
}

}  // namespace lockstep::testing
