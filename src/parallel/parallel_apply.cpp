#include <lockstep/parallel/parallel_apply.h>

#include <algorithm>
#include <atomic>
#include <optional>

#include <lockstep/core/error.h>
#include <lockstep/core/print.h>
#include <lockstep/core/rethrow.h>
#include <lockstep/tensor/batch_shard.h>

#include "core/context.h"
#include "core/failures.h"
#include "core/text.h"
#include "nn/each_state.h"
#include "parallel/replica_barrier.h"
#include "runtime/registry.h"
#include "tensor/philox.h"
#include "tensor/transient_memory.h"

namespace lockstep {
namespace {

// The random numbers of one replica: the replica's own sequence, which is new in each pass, and the sequence that all
// replicas share.
struct ReplicaRandom {
  ReplicaRandom(const GeneratorState& caller, std::size_t replica)
      : own_start(sequence_of(
            {caller.seed, caller.stream + (std::uint64_t(replica) + 1) * 0x9E3779B97F4A7C15u, caller.offset})),
        own(own_start),
        shared(caller) {}

  GeneratorState own_start, own, shared;
};

// Advances the caller's sequence past the numbers that the replicas drew, so that they are not drawn again.
void advance_sequence_of_caller(const std::vector<ReplicaRandom>& replicas, const GeneratorState& caller) {
  std::uint64_t drawn = 0;
  bool own = false;
  for (const ReplicaRandom& random : replicas) {
    drawn = std::max(drawn, random.shared.offset - caller.offset);
    own = own || random.own != random.own_start;
  }
  draw(drawn + own);
}

// The place of each shard in the whole batch.
std::vector<BatchShard> shards_of(const ReplicaPass& pass, std::size_t count) {
  std::vector<BatchShard> shards(count, BatchShard{.dim = pass.dim});
  std::int64_t first = pass.first_row;
  for (std::size_t i = 0; i < std::min(count, pass.rows.size()); first += pass.rows[i++]) {
    shards[i].first = first;
    shards[i].count = pass.rows[i];
  }
  for (BatchShard& shard : shards) shard.total = pass.all_rows.value_or(first);
  return shards;
}

// Checks that every device exists and is given once, before anything is submitted.
std::vector<DeviceState*> states_of(std::span<const Device> devices) {
  if (devices.empty()) throw InvalidArgument("[run_replicas] expected at least one device, got none");
  std::vector<DeviceState*> states;
  for (const Device& device : devices) {
    DeviceState& state = device_state(device);
    if (std::find(states.begin(), states.end(), &state) != states.end())
      throw InvalidArgument(text("[run_replicas] expected each device once, got ", device, " twice"));
    states.push_back(&state);
  }
  return states;
}

std::vector<DeviceThread*> threads_of(std::span<DeviceState* const> states) {
  std::vector<DeviceThread*> threads;
  for (DeviceState* const state : states) threads.push_back(&state->thread);
  return threads;
}

// The number of the replica that runs on the caller's thread, which would otherwise only wait. If this is the thread of
// a device of the pass, returns that device's replica: if the thread had to run two replicas, one could not wait for
// the other. Else returns the first replica.
std::size_t replica_of_this_thread(std::span<DeviceState* const> states) {
  for (std::size_t i = 0; i < states.size(); ++i)
    if (&states[i]->thread == DeviceThread::current()) return i;
  return 0;
}

bool is_consequence(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const PeerReplicaEnded&) {
    return true;
  } catch (...) {
    return false;
  }
}

// Throws the failure of the lowest replica; a failure that is only a consequence of another one is thrown last.
[[noreturn]] void throw_lowest(const std::vector<std::exception_ptr>& failures, std::span<const Device> devices) {
  std::vector<std::exception_ptr> located, consequences;
  for (std::size_t i = 0; i < failures.size(); ++i) {
    if (!failures[i]) continue;
    auto& list = is_consequence(failures[i]) ? consequences : located;
    list.push_back(detail::with_context(failures[i], text("in replica ", i, " on ", devices[i])));
  }
  located.insert(located.end(), consequences.begin(), consequences.end());
  throw_first(located);
}

}  // namespace

namespace detail {

std::optional<Device> device_of(nn::ModuleBase& module) {
  std::optional<Device> device;
  nn::for_each_state(module, [&](const nn::Path&, const nn::State& value) {
    if (!device && value.defined()) device = value.device();
  });
  return device;
}

void check_counts(std::size_t replicas, std::size_t inputs, std::size_t devices) {
  if (inputs == 0) throw InvalidArgument("[parallel_apply] expected at least one input, got none");
  if (replicas < inputs || devices < inputs)
    throw InvalidArgument(text("[parallel_apply] expected a replica and a device for each of ", inputs, " inputs, got ",
                               replicas, " and ", devices));
}

void throw_no_device(std::size_t replica) {
  throw InvalidArgument(text("[parallel_apply] expected replica ", replica,
                             " or its input to have a tensor, got neither: give the devices"));
}

}  // namespace detail

bool inside_replica() noexcept { return context().barrier != nullptr; }

void run_replicas(std::span<const Device> devices, const std::function<void(std::size_t)>& job,
                  const ReplicaPass& pass) {
  const std::vector<DeviceState*> states = states_of(devices);
  const std::size_t count = devices.size();
  Context caller = context();
  if (count > 1 && caller.in_pass)
    throw InvalidArgument(
        text("[run_replicas] called inside a replica, for ", count, " replicas: call it outside of replicas"));
  if (caller.save_listener)
    throw InvalidArgument(
        "[run_replicas] called inside a checkpoint(), which does not reach into replicas: call checkpoint() inside of "
        "the module, around its layers");
  std::optional<Reservation> reservation;
  if (count > 1) reservation.emplace(threads_of(states)), caller.in_pass = true;
  const ContextScope scope(caller);
  const GeneratorState start = current_generator();
  const std::vector<BatchShard> shards = shards_of(pass, count);
  std::vector<ReplicaRandom> random;
  for (std::size_t i = 0; i < count; ++i) random.emplace_back(start, pass.first_replica + i);
  // False if the group has several replicas, even if the batch is so small that only one of them runs.
  const bool alone = pass.group ? pass.group->has_one_replica() : count == 1;
  ReplicaBarrier barrier(count, pass.group ? pass.group : std::make_shared<ReplicaGroup>(devices));
  std::vector<std::exception_ptr> failures(count);
  std::vector<std::string> printed(count);
  std::atomic<std::size_t> running = count - 1;  // on threads other than this one

  const auto run = [&](std::size_t i) {
    Context replica = {.streams = caller.streams,
                       .recording = caller.recording,
                       .in_pass = caller.in_pass,
                       .generator = &random[i].own,
                       .shard = &shards[i],
                       .batch_generator = &random[i].shared,
                       .barrier = alone ? nullptr : &barrier,
                       .replica = i,
                       .autocast = caller.autocast,
                       .replay_values = caller.replay_values,
                       .checkpoint = caller.checkpoint,
                       .printed = &printed[i]};
    try {
      const ContextScope own(replica);
      const OperationEnd end;  // also if the job fails between its operations
      job(i);
    } catch (...) {
      failures[i] = std::current_exception();
    }
    barrier.arrive_and_drop(i);
  };

  const std::size_t here = replica_of_this_thread(states);
  for (std::size_t i = 0; i < count; ++i)
    if (i != here) {
      const auto on_its_thread = [&, i] {
        run(i);
        if (--running == 0) DeviceThread::notify();
      };
      try {
        states[i]->thread.submit(on_its_thread);
      } catch (...) {  // no thread could be started
        failures[i] = std::current_exception();
        barrier.arrive_and_drop(i);
        --running;
      }
    }
  run(here);
  if (count > 1) DeviceThread::wait_until([&] { return running == 0; });
  advance_sequence_of_caller(random, start);
  for (const std::string& text_of_replica : printed) print_text(text_of_replica);
  for (const std::exception_ptr& failure : failures)
    if (failure) throw_lowest(failures, devices);
}

}  // namespace lockstep
