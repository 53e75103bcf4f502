// Collectives of devices that share a card: the first rank's stream does all the work, and the other streams wait for
// it.
#include <algorithm>
#include <cstddef>

#include "backends/cuda/communicator.h"
#include "backends/cuda/cuda_stream.h"
#include "backends/cuda/kernels.h"

namespace lockstep::gpu {
namespace {

void wait_for(const CudaStream& stream, const CudaStream& other) {
  use_card(other.card);
  const OwnedEvent event = make_event(other.device);  // destroyed by CUDA after it has completed
  check(cudaEventRecord(event.get(), other.stream.get()), "cudaEventRecord", other.device);
  check(cudaStreamWaitEvent(stream.stream.get(), event.get(), 0), "cudaStreamWaitEvent", stream.device);
}

std::byte* at(void* memory, std::size_t bytes) { return static_cast<std::byte*>(memory) + bytes; }
const std::byte* at(const void* memory, std::size_t bytes) { return static_cast<const std::byte*>(memory) + bytes; }

class SharedCardCommunicator final : public CudaCommunicator {
 public:
  void enqueue(const CollectiveCall& call) override {
    const CudaStream& worker = stream_of(call.parts[0].stream);
    join_streams(call.parts);
    use_card(worker.card);
    work(call, worker);
    fork_streams(call.parts);
  }

  // Nothing here waits for another process or card, so pending operations always end.
  void abort() noexcept override {}
  std::exception_ptr failure() noexcept override { return nullptr; }

 private:
  static void work(const CollectiveCall& call, const CudaStream& worker) {
    switch (call.kind) {
      case CollectiveKind::all_reduce: return reduce(call, worker, 0, call.count, call.parts);
      case CollectiveKind::reduce:
        return reduce(call, worker, 0, call.count, call.parts.subspan(std::size_t(call.root), 1));
      case CollectiveKind::reduce_scatter: {
        std::size_t first = 0;
        for (std::size_t rank = 0; rank < call.parts.size(); first += call.counts[rank++])
          reduce(call, worker, first, call.counts[rank], call.parts.subspan(rank, 1));
        return;
      }
      case CollectiveKind::broadcast:
        for (const CollectivePart& part : call.parts)
          move(worker, part.receive, call.parts[std::size_t(call.root)].send, call.count * size_of(call.dtype));
        return;
      case CollectiveKind::all_gather: {
        std::size_t offset = 0;
        for (std::size_t rank = 0; rank < call.parts.size(); ++rank) {
          const std::size_t bytes = call.counts[rank] * size_of(call.dtype);
          for (const CollectivePart& part : call.parts)
            if (bytes > 0) move(worker, at(part.receive, offset), call.parts[rank].send, bytes);
          offset += bytes;
        }
        return;
      }
      case CollectiveKind::send_receive:
        for (const Transfer& transfer : call.transfers)
          move(worker, transfer.receive, transfer.send, transfer.count * size_of(call.dtype));
        return;
      case CollectiveKind::barrier: return;
    }
  }

  // Reduces elements [first, first + count) of all ranks into the start of the targets.
  static void reduce(const CollectiveCall& call, const CudaStream& worker, std::size_t first, std::size_t count,
                     std::span<const CollectivePart> targets) {
    if (count == 0) return;
    RankReductionArgs reduction;
    for (const CollectivePart& part : call.parts)
      reduction.sources[std::size_t(reduction.source_count++)] = at(part.send, first * size_of(call.dtype));
    for (const CollectivePart& part : targets) reduction.targets[std::size_t(reduction.target_count++)] = part.receive;
    reduction.count = count;
    check(reduce_ranks(reduction, call.dtype, call.op, worker.stream.get()), "cudaLaunchKernelEx", worker.device);
  }

  static void move(const CudaStream& worker, void* to, const void* from, std::size_t bytes) {
    if (to == from || bytes == 0) return;
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, worker.stream.get()), "cudaMemcpyAsync", worker.device);
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
