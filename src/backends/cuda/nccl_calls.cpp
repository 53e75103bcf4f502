#include "backends/cuda/nccl_calls.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <iostream>
#include <string>

#include <lockstep/core/error.h>

#include "core/text.h"

namespace lockstep::gpu {
namespace {

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case kBool:
    case kUInt8: return ncclUint8;
    case kInt32: return ncclInt32;
    case kInt64: return ncclInt64;
    case kFloat16: return ncclFloat16;
    case kBFloat16: return ncclBfloat16;
    case kFloat32: return ncclFloat32;
    case kFloat64: return ncclFloat64;
  }
  return ncclUint8;
}

ncclRedOp_t op_of(const CollectiveCall& call) {
  switch (call.op) {
    case ReduceOp::sum: return call.dtype == kBool ? ncclMax : ncclSum;  // bools: logical or
    case ReduceOp::mean: return ncclAvg;
    case ReduceOp::max: return ncclMax;
    case ReduceOp::min: return ncclMin;
  }
  return ncclSum;
}

bool are_even(const CollectiveCall& call) {
  return std::ranges::all_of(call.counts, [&](std::size_t count) { return count == call.counts[0]; });
}

// Calls f(rank, elements, first element) for each rank's share, since NCCL's own operations need shares of equal size.
template <class F>
ncclResult_t for_each_share(const CollectiveCall& call, F&& f) {
  std::size_t first = 0;
  for (std::size_t root = 0; root < call.counts.size(); first += call.counts[root++]) {
    if (call.counts[root] == 0) continue;
    if (const ncclResult_t result = f(int(root), call.counts[root], first); is_nccl_error(result)) return result;
  }
  return ncclSuccess;
}

ncclResult_t transfer(const CollectiveCall& call, int rank, ncclComm_t comm, cudaStream_t stream) {
  const ncclDataType_t type = type_of(call.dtype);
  for (const Transfer& each : call.transfers) {
    if (each.count == 0) continue;
    if (each.from == rank)
      if (const ncclResult_t result = nccl().ncclSend(each.send, each.count, type, each.to, comm, stream);
          is_nccl_error(result))
        return result;
    if (each.to == rank)
      if (const ncclResult_t result = nccl().ncclRecv(each.receive, each.count, type, each.from, comm, stream);
          is_nccl_error(result))
        return result;
  }
  return ncclSuccess;
}

}  // namespace

void set_nccl_environment(bool deterministic, bool says) {
  std::string said;
  const auto set_unless_set = [&](const char* name, const char* value, const char* why) {
    if (std::getenv(name)) return;
    ::setenv(name, value, 0);
    said += text(said.empty() ? "" : " and ", name, '=', value, " (", why, ')');
  };
  // If NCCL_ALGO is set, it decides whether NVLS may be chosen.
  if (deterministic && !std::getenv("NCCL_ALGO"))
    set_unless_set("NCCL_NVLS_ENABLE", "0", "so that runs repeat bit for bit, unless LOCKSTEP_DETERMINISTIC=0");
  set_unless_set("NCCL_LAUNCH_ORDER_IMPLICIT", "1", "so that communicators launch in one order");
  if (says && !said.empty()) std::cerr << text("[cuda] several cards: has set ", said, " in this process\n");
}

void check_nccl_version() {
  int version = 0;
  static_cast<void>(nccl().ncclGetVersion(&version));
  if (version >= kOldestNccl) return;
  throw BackendError("ncclGetVersion", version, "cuda",
                     text("expected NCCL ", kOldestNccl / 10000, '.', kOldestNccl / 100 % 100, '.', kOldestNccl % 100,
                          " or newer, got version ", version,
                          ". What to do: install a newer NCCL, or put its folder first in LD_LIBRARY_PATH"));
}

ncclResult_t enqueue_rank(const CollectiveCall& call, std::size_t rank, ncclComm_t comm, cudaStream_t stream) {
  const CollectivePart& part = call.parts[rank];
  const ncclDataType_t type = type_of(call.dtype);
  switch (call.kind) {
    case CollectiveKind::all_reduce:
      return nccl().ncclAllReduce(part.send, part.receive, call.count, type, op_of(call), comm, stream);
    case CollectiveKind::reduce:
      return nccl().ncclReduce(part.send, part.receive, call.count, type, op_of(call), call.root, comm, stream);
    case CollectiveKind::broadcast:
      return nccl().ncclBroadcast(part.send, part.receive, call.count, type, call.root, comm, stream);
    case CollectiveKind::reduce_scatter:
      if (are_even(call))
        return nccl().ncclReduceScatter(part.send, part.receive, call.counts[0], type, op_of(call), comm, stream);
      return for_each_share(call, [&](int root, std::size_t count, std::size_t first) {
        const void* const send = static_cast<const std::byte*>(part.send) + first * size_of(call.dtype);
        return nccl().ncclReduce(send, part.receive, count, type, op_of(call), root, comm, stream);
      });
    case CollectiveKind::all_gather:
      if (are_even(call)) return nccl().ncclAllGather(part.send, part.receive, call.counts[0], type, comm, stream);
      return for_each_share(call, [&](int root, std::size_t count, std::size_t first) {
        void* const receive = static_cast<std::byte*>(part.receive) + first * size_of(call.dtype);
        return nccl().ncclBroadcast(part.send, receive, count, type, root, comm, stream);
      });
    case CollectiveKind::send_receive: return transfer(call, int(call.first_rank + rank), comm, stream);
    case CollectiveKind::barrier: break;
  }
  return ncclSuccess;
}

}  // namespace lockstep::gpu
