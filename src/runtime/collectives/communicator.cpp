#include <lockstep/runtime/communicator.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include <lockstep/core/error.h>
#include <lockstep/core/moved_from.h>

#include "core/text.h"
#include "distributed/transport.h"
#include "runtime/collectives/collective_call.h"
#include "runtime/graphs.h"
#include "runtime/registry.h"

namespace lockstep {
namespace {

std::vector<DeviceState*> states_of(const std::vector<Device>& devices) {
  if (devices.empty()) throw InvalidArgument("[Communicator] expected at least one device, got none");
  std::vector<DeviceState*> states;
  for (const Device device : devices) {
    if (device.type() != devices[0].type())
      throw DeviceMismatch(text("[Communicator] expected devices of one kind, got ", devices[0], " and ", device));
    DeviceState* const state = &device_state(device);
    expect_visible("Communicator", device);
    if (std::find(states.begin(), states.end(), state) != states.end())
      throw InvalidArgument(text("[Communicator] expected each device once, got ", device, " twice"));
    states.push_back(state);
  }
  return states;
}

void check(const CommunicatorOptions& options) {
  constexpr int kMaxCtas = 64;
  if (options.max_ctas < 0 || options.max_ctas > kMaxCtas)
    throw InvalidArgument(
        text("[Communicator] expected max_ctas from 0 (NCCL chooses) to ", kMaxCtas, ", got ", options.max_ctas));
  if (options.time_limit <= std::chrono::milliseconds(0))
    throw InvalidArgument(
        text("[Communicator] expected a time_limit above 0 ms, got ", options.time_limit.count(), " ms"));
}

Peers peers_of(const World& world, std::size_t devices) {
  Peers peers;
  if (world.size() > 1) {
    peers.transport = world.transport();
    peers.channels = world.transport()->new_channels();
    peers.process = std::size_t(world.rank().value());
    peers.devices.clear();
    for (const std::int64_t count : world.all_gather(std::int64_t(devices), "making a communicator"))
      peers.devices.push_back(std::size_t(count));
  } else {
    peers.devices = {devices};
  }
  return peers;
}

// Guards a communicator against use by two threads at once, for which NCCL's behaviour is undefined.
class ExclusiveUse {
 public:
  ExclusiveUse(const char* name, std::atomic<bool>& busy) : busy_(busy) {
    if (busy.exchange(true, std::memory_order_acquire))
      throw InvalidArgument(text('[', name,
                                 "] two threads use this communicator at the same time: serialize the calls, or make "
                                 "one communicator per thread"));
  }
  ~ExclusiveUse() { busy_.store(false, std::memory_order_release); }
  ExclusiveUse(const ExclusiveUse&) = delete;
  ExclusiveUse& operator=(const ExclusiveUse&) = delete;

 private:
  std::atomic<bool>& busy_;
};

}  // namespace

class Communicator::State final : public CapturedUse, public std::enable_shared_from_this<Communicator::State> {
 public:
  State(std::vector<Device> group, const World& world, const CommunicatorOptions& options)
      : devices(std::move(group)),
        states_(states_of(devices)),
        device_set_(devices[0].is_cpu() ? nullptr : accelerators()),
        backend_(states_[0]->backend),
        peers(peers_of(world, devices.size())) {
    std::vector<int> indices;
    for (const Device device : devices) indices.push_back(device.index());
    handle_ = backend_.create_communicator(indices, peers, options);
  }
  ~State() override { backend_.destroy_communicator(handle_); }

  const std::vector<Device> devices;

  void run(std::span<const RankBuffers> ranks, CollectiveCall call) {
    const ExclusiveUse use(call.name, busy_);
    expect_ranks(call.name, ranks.size());
    std::vector<CollectivePart> parts;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
      parts.push_back({stream(call.name, rank, ranks[rank].stream), ranks[rank].send, ranks[rank].receive});
    enqueue(parts, call);
  }

  void run(std::span<const Stream> streams, const CollectiveCall& call) {
    std::vector<RankBuffers> ranks;
    for (const Stream& stream : streams) ranks.push_back({stream});
    run(ranks, call);
  }

  void abort() noexcept {
    if (!aborted_.exchange(true)) backend_.abort_communicator(handle_);
  }
  bool is_aborted() const noexcept { return aborted_; }
  void watch_launch(StreamHandle origin, bool is_enqueued) const override {
    backend_.watch_launch(handle_, origin, is_enqueued);
  }
  std::uint64_t failures() const noexcept override {
    return backend_.communicator_failures(handle_) + (aborted_ ? 1 : 0);
  }

 private:
  void expect_ranks(const char* name, std::size_t got) const {
    if (got != devices.size())
      throw InvalidArgument(text('[', name, "] expected one part for each of ", devices.size(), " ranks, got ", got));
  }

  StreamHandle stream(const char* name, std::size_t rank, const Stream& stream) const {
    if (stream.device() != devices[rank])
      throw DeviceMismatch(text('[', name, "] expected a stream of ", devices[rank], " for rank ", rank,
                                ", got one of ", stream.device()));
    if (&device_state(devices[rank]) != states_[rank])
      throw InvalidArgument(
          text('[', name,
               "] this communicator's devices no longer exist (their SimulatedDevices scope has ended): make a new "
               "Communicator"));
    return states_[rank]->stream(stream.id());
  }

  void enqueue(std::span<const CollectivePart> parts, CollectiveCall& call) {
    call.parts = parts;
    call.first_rank = peers.first_rank();
    call.ranks = peers.size();
    for (const std::size_t count : call.counts) call.count += count;
    for (const Transfer& transfer : call.transfers) call.count += transfer.count;
    check(call);
    if (aborted_) throw CollectiveError(0, call.name, bytes_of(call), "the communicator was aborted");
    backend_.collective(handle_, call);
    if (Graphs* const graphs = backend_.graphs(); graphs && graphs->is_capturing(parts.front().stream))
      graphs->use(shared_from_this());
  }

  const std::vector<DeviceState*> states_;
  const std::shared_ptr<DeviceSet> device_set_;  // keeps the devices alive beyond their scope
  Backend& backend_;

 public:
  const Peers peers;

 private:
  CommunicatorHandle handle_ = nullptr;
  std::atomic<bool> busy_ = false;
  std::atomic<bool> aborted_ = false;
};

Communicator::Communicator(std::vector<Device> devices, const World& world, const CommunicatorOptions& options) {
  check(options);
  state_ = std::make_shared<State>(std::move(devices), world, options);
}
Communicator::~Communicator() = default;
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;

Communicator::State& Communicator::state() const {
  return detail::checked_deref(state_, "Communicator", "a communicator");
}

int Communicator::size() const { return int(state().peers.size()); }
DeviceRank Communicator::first_rank() const { return DeviceRank(int(state().peers.first_rank())); }
const std::vector<Device>& Communicator::devices() const { return state().devices; }

void Communicator::all_reduce(std::span<const RankBuffers> ranks, std::size_t count, DType dtype, ReduceOp op) {
  state().run(ranks,
              {.kind = CollectiveKind::all_reduce, .name = "all_reduce", .dtype = dtype, .op = op, .count = count});
}

void Communicator::reduce(std::span<const RankBuffers> ranks, std::size_t count, DType dtype, int root, ReduceOp op) {
  state().run(
      ranks,
      {.kind = CollectiveKind::reduce, .name = "reduce", .dtype = dtype, .op = op, .count = count, .root = root});
}

void Communicator::broadcast(std::span<const RankBuffers> ranks, std::size_t count, DType dtype, int root) {
  state().run(ranks,
              {.kind = CollectiveKind::broadcast, .name = "broadcast", .dtype = dtype, .count = count, .root = root});
}

void Communicator::reduce_scatter(std::span<const RankBuffers> ranks, std::span<const std::size_t> counts, DType dtype,
                                  ReduceOp op) {
  state().run(
      ranks,
      {.kind = CollectiveKind::reduce_scatter, .name = "reduce_scatter", .dtype = dtype, .op = op, .counts = counts});
}

void Communicator::all_gather(std::span<const RankBuffers> ranks, std::span<const std::size_t> counts, DType dtype) {
  state().run(ranks, {.kind = CollectiveKind::all_gather, .name = "all_gather", .dtype = dtype, .counts = counts});
}

void Communicator::send_receive(std::span<const Stream> streams, std::span<const Transfer> transfers, DType dtype) {
  state().run(streams,
              {.kind = CollectiveKind::send_receive, .name = "send_receive", .dtype = dtype, .transfers = transfers});
}

void Communicator::barrier(std::span<const Stream> streams) {
  state().run(streams, {.kind = CollectiveKind::barrier, .name = "barrier"});
}

void Communicator::abort() noexcept {
  if (state_) state_->abort();
}
bool Communicator::is_aborted() const { return state().is_aborted(); }

}  // namespace lockstep
