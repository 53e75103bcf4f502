// Collectives of devices that share a card: the first rank's stream does all the work, and the other streams wait for
// it.
#include <algorithm>
#include <cstddef>

#include "backends/cuda/communicator.h"
#include "backends/cuda/cuda_stream.h"
#include "backends/cuda/kernels.h"
#include "runtime/collectives/collective_call.h"

namespace lockstep::gpu {
namespace {

void wait_for(const CudaStream& stream, const CudaStream& other) {
  use_card(other.card);
  const OwnedEvent event = make_event(other.device);  // destroyed by CUDA after it has completed
  record_event(event, other);
  check(cudaStreamWaitEvent(stream.stream.get(), event.get(), 0), "cudaStreamWaitEvent", stream.device);
}

class SharedCardCommunicator final : public CudaCommunicator {
 public:
  void enqueue(const CollectiveCall& call) override {
    const CudaStream& worker = stream_of(call.parts[0].stream);
    join_streams(call.parts);
    use_card(worker.card);
    const bool is_reduction = call.kind == CollectiveKind::all_reduce || call.kind == CollectiveKind::reduce ||
                              call.kind == CollectiveKind::reduce_scatter;
    for (const RankReduction& reduction : reductions_of(call))
      is_reduction ? reduce(call, worker, reduction) : copy(call, worker, reduction);
    fork_streams(call.parts);
  }

  // Nothing here waits for another process or card, so pending operations always end.
  void abort() noexcept override {}
  std::exception_ptr failure() noexcept override { return nullptr; }

 private:
  static void reduce(const CollectiveCall& call, const CudaStream& worker, const RankReduction& reduction) {
    RankReductionArgs args;
    std::ranges::copy(reduction.sources, args.sources.begin());
    std::ranges::copy(reduction.targets, args.targets.begin());
    args.source_count = int(reduction.sources.size());
    args.target_count = int(reduction.targets.size());
    args.count = reduction.count;
    check(reduce_ranks(args, call.dtype, call.op, worker.stream.get()), "cudaLaunchKernelEx", worker.device);
  }

  static void copy(const CollectiveCall& call, const CudaStream& worker, const RankReduction& copies) {
    const void* const from = copies.sources.front();
    const std::size_t bytes = copies.count * size_of(call.dtype);
    for (void* const to : copies.targets)
      if (to != from)
        check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, worker.stream.get()), "cudaMemcpyAsync",
              worker.device);
  }
};

}  // namespace

void join_streams(std::span<const CollectivePart> parts) {
  for (const CollectivePart& part : parts.subspan(1)) wait_for(stream_of(parts[0].stream), stream_of(part.stream));
}

void fork_streams(std::span<const CollectivePart> parts) {
  for (const CollectivePart& part : parts.subspan(1)) wait_for(stream_of(part.stream), stream_of(parts[0].stream));
}

std::unique_ptr<CudaCommunicator> make_shared_card_communicator(std::vector<Member> members) {
  const Member first = members[0];
  for (const Member& member : members) {
    if (member.card == first.card) continue;
    int reaches = 0;
    check(cudaDeviceCanAccessPeer(&reaches, first.card, member.card), "cudaDeviceCanAccessPeer", first.device);
    if (!reaches) check(cudaErrorPeerAccessUnsupported, "cudaDeviceCanAccessPeer", member.device);
  }
  return std::make_unique<SharedCardCommunicator>();
}

}  // namespace lockstep::gpu
