// Enqueues collectives on the simulated streams of all their ranks: checked and counted per rank, then enqueued at
// once.
#include <lockstep/core/error.h>

#include "backends/sim/sim_backend.h"
#include "backends/sim/sim_collective.h"
#include "core/text.h"
#include "runtime/collectives/collective_call.h"

namespace lockstep {

using Failure = std::shared_ptr<sim::AsyncError>;
using sim::SimCollective;
using sim::SimCommunicator;
using sim::SimStream;

CommunicatorHandle SimBackend::create_communicator(std::span<const int>, const Peers& peers,
                                                   const CommunicatorOptions&) {
  return new SimCommunicator(peers);
}

void SimBackend::destroy_communicator(CommunicatorHandle handle) noexcept {
  delete static_cast<SimCommunicator*>(handle);
}

void SimBackend::abort_communicator(CommunicatorHandle handle) noexcept {
  static_cast<SimCommunicator*>(handle)->abort();
}

std::uint64_t SimBackend::communicator_failures(CommunicatorHandle handle) const noexcept {
  return static_cast<const SimCommunicator*>(handle)->failures();
}

// The graph copies the call's arrays, because the originals do not exist any more at a replay.
bool SimBackend::capture_collective(CommunicatorHandle handle, const CollectiveCall& call) {
  const StreamHandle stream = call.parts.front().stream;
  if (!graphs_.is_capturing(stream)) return false;
  if (call.parts.size() != call.ranks) graphs_.refuse("a collective of several processes", stream);
  const auto again = [this, handle, call, parts = std::vector(call.parts.begin(), call.parts.end()),
                      counts = std::vector(call.counts.begin(), call.counts.end()),
                      transfers = std::vector(call.transfers.begin(), call.transfers.end())] {
    CollectiveCall same = call;
    same.parts = parts;
    same.counts = counts;
    same.transfers = transfers;
    collective(handle, same);
  };
  return graphs_.capture(stream, again);
}

void SimBackend::collective(CommunicatorHandle handle, const CollectiveCall& call) {
  if (capture_collective(handle, call)) return;
  const EnqueueMark mark = EnqueueMark::begin();
  auto& communicator = *static_cast<SimCommunicator*>(handle);
  const std::shared_ptr<SimCollective> collective = communicator.make(call, awake_);
  const std::scoped_lock lock(mutex_);
  communicator.add(collective, call);
  declare(call);
  for (std::size_t rank = call.parts.size(); rank-- > 0;) {  // in reverse, so that the first failing rank's error stays
    const SimStream& stream = stream_of(call.parts[rank].stream);
    const sim::Faults::Verdict verdict = faults_.next(sim::FaultKind::collective, stream.device);
    if (verdict == sim::Faults::Verdict::works) continue;
    communicator.count_failure();
    const bool lost = verdict == sim::Faults::Verdict::lost;
    const char* const reason = lost ? "the device is lost" : "an injected fault";
    const BackendError cause(call.name, lost ? sim::kDeviceLost : sim::kLaunchFailure, stream.device_name, reason);
    collective->fail(collective->error(int(rank), text(reason, " on ", stream.device_name),
                                       std::make_exception_ptr(cause),
                                       lost ? std::vector{loss_of(stream.device, call.name)} : std::vector<Failure>()));
  }
  try {
    for (std::size_t rank = 0; rank < call.parts.size(); ++rank)
      stream_of(call.parts[rank].stream).push({call.name, sim::CollectiveTask{collective, int(rank)}, nullptr, mark});
  } catch (...) {
    collective->abort();  // the ranks that already have it must not wait for the others
    throw;
  }
}

void SimBackend::declare(const CollectiveCall& call) {
  std::vector<sim::RaceChecker::RankAccesses> ranks;
  for (std::size_t rank = 0; rank < call.parts.size(); ++rank) {
    const SimStream& stream = stream_of(call.parts[rank].stream);
    ranks.push_back({stream.index, accesses_of(call, rank), senders_of(call, rank)});
    links_.link(stream.device, stream_of(call.parts.front().stream).device);
    for (const MemoryAccess& access : ranks.back().accesses)
      memory_.expect(call.name, stream.device, access.region, access.kind);
  }
  if (options_.check_races) races_.access_together(call.name, ranks);
}

}  // namespace lockstep
