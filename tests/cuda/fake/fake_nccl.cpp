#include <nccl.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "cpu/reduce_ranks.h"
#include "cuda/fake/fake_cuda.h"

namespace {

using namespace lockstep;

enum class Kind { all_reduce, reduce, broadcast, message };

// One operation of all its ranks, which several threads may call: each thread stands for a process. A rank has arrived
// when its stream reaches the operation; the last rank to arrive does the work. Ranks of several processes that
// disagree wait forever, as they may in NCCL.
struct Operation {
  Kind kind;
  std::size_t count, expected;
  DType dtype;
  ReduceOp op;
  int root;
  std::map<int, std::pair<const void*, void*>> buffers = {};  // by rank
  std::size_t told = 0, arrived = 0;
  bool agreed = true, done = false;

  void run() {
    done = true;
    RankReduction work;
    work.count = count;
    for (const auto& [rank, pair] : buffers) {
      const bool sends = kind == Kind::all_reduce || kind == Kind::reduce || rank == root;
      const bool receives = kind == Kind::reduce ? rank == root : kind != Kind::message || pair.second;
      if (sends && pair.first) work.sources.push_back(pair.first);
      if (receives) work.targets.push_back(pair.second);
    }
    for (const void* memory : work.sources) fake::expect_memory("nccl", memory, count * size_of(dtype));
    for (const void* memory : work.targets) fake::expect_memory("nccl", memory, count * size_of(dtype));
    host::reduce_ranks(work, dtype, op, 0, count);
  }
};

struct Call {
  ncclComm_t comm;
  cudaStream_t stream;
  std::shared_ptr<Operation> operation;
};

// The group that this thread is building.
thread_local int depth = 0;
thread_local std::vector<Call> grouped;

DType dtype_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt32: return kInt32;
    case ncclInt64: return kInt64;
    case ncclFloat16: return kFloat16;
    case ncclBfloat16: return kBFloat16;
    case ncclFloat32: return kFloat32;
    case ncclFloat64: return kFloat64;
    default: return kUInt8;
  }
}
ReduceOp op_of(ncclRedOp_t op) {
  return op == ncclAvg ? ReduceOp::mean : op == ncclMax ? ReduceOp::max : op == ncclMin ? ReduceOp::min : ReduceOp::sum;
}

}  // namespace

struct ncclComm {
  struct Group {
    int size = 0, ranks = 0;
    bool lost_rank = false;     // a rank was aborted: the others wait for it
    std::thread::id processes;  // the process of all ranks; none if they belong to several
    std::map<std::tuple<int, int, std::size_t>, std::shared_ptr<Operation>> meeting = {};  // not yet called by all
  };
  std::shared_ptr<Group> group;
  int rank;
  int card;
  bool busy = true, aborted = false, pending = false;
  std::map<std::tuple<Kind, int, int, bool>, std::size_t> sequence = {};  // by kind of call
  std::vector<Call> unlaunched = {};                                      // of a group that has ended
};

namespace {

std::map<std::string, std::shared_ptr<ncclComm::Group>>& groups() {  // by id
  static std::map<std::string, std::shared_ptr<ncclComm::Group>> groups;
  return groups;
}

ncclResult_t add(ncclComm_t comm, cudaStream_t stream, const Operation& what, int from, int to, const void* send,
                 void* receive) {
  const auto held = fake::lock();
  if (depth == 0) fake::complain("a call outside a group");
  const std::size_t turn = comm->sequence[{what.kind, from, to, what.kind == Kind::message && send}]++;
  const int kind = what.kind == Kind::message ? 100 + from * 64 + to : int(what.kind);
  ncclComm::Group& group = *comm->group;
  const std::tuple key(kind, what.root, turn);
  const auto operation = group.meeting.try_emplace(key, std::make_shared<Operation>(what)).first->second;
  if (operation->count != what.count || operation->dtype != what.dtype) operation->agreed = false;
  if (!operation->agreed && group.processes != std::thread::id()) fake::complain("ranks that do not agree");
  if (++operation->told == operation->expected) group.meeting.erase(key);
  auto& buffers = operation->buffers[comm->rank];
  if (send) buffers.first = send;
  if (receive) buffers.second = receive;
  grouped.push_back({comm, stream, operation});
  return ncclInProgress;
}

// The operations of a card that are launched and have not started, and how many have started and not ended. They start
// in the order of their launches (NCCL_LAUNCH_ORDER_IMPLICIT).
struct Card {
  std::deque<std::pair<const ncclComm*, int>> waiting;
  int running = 0;
};
std::map<int, Card>& cards() {
  static std::map<int, Card> cards;
  return cards;
}

bool may_start(const ncclComm& comm, int launch) {
  Card& card = cards()[comm.card];
  while (!card.waiting.empty() && card.waiting.front().first->aborted) card.waiting.pop_front();
  const int most = fake::machine().collectives_at_once;
  if (card.waiting.front().second != launch || (most > 0 && card.running >= most)) return false;
  card.waiting.pop_front();
  ++card.running;
  return true;
}

// Launches what a rank called in a group. A rank's calls in a group are one piece of work: they do not wait for each
// other.
void launch(ncclComm_t comm) {
  const auto calls = std::exchange(comm->unlaunched, {});
  static int launches = 0;
  const int launch = ++launches;
  cards()[comm->card].waiting.emplace_back(comm, launch);
  const auto arrived = std::make_shared<bool>(false);
  fake::enqueue(
      calls[0].stream,
      [comm, arrived] {
        comm->pending = false;
        if (*arrived) --cards()[comm->card].running;
      },
      [comm, calls, arrived, launch] {
        if (comm->aborted) return true;
        if (!*arrived) {
          if (!may_start(*comm, launch)) return false;
          *arrived = true;
          for (const Call& call : calls) ++call.operation->arrived;
        }
        const fake::Machine& machine = fake::machine();
        if (machine.collectives_fail || machine.collectives_hang || comm->group->lost_rank) return false;
        bool done = true;
        for (const Call& call : calls) {
          Operation& operation = *call.operation;
          if (operation.arrived == operation.expected && operation.agreed && !operation.done) operation.run();
          done = done && operation.done;
        }
        return done;
      });
}

// Captures the group as one piece of work of all ranks, which runs at each launch of the graph.
ncclResult_t capture_group() {
  std::vector<cudaStream_t> streams;
  std::vector<std::shared_ptr<Operation>> operations;
  std::vector<ncclComm_t> comms;
  for (const Call& call : grouped) {
    call.comm->busy = true;
    comms.push_back(call.comm);
    if (std::ranges::find(streams, call.stream) == streams.end()) streams.push_back(call.stream);
    if (std::ranges::find(operations, call.operation) == operations.end()) operations.push_back(call.operation);
  }
  for (const auto& operation : operations)
    if (operation->told != operation->expected) fake::complain("a captured operation of ranks that are not all there");
  grouped.clear();
  const auto are_aborted = [comms] { return std::ranges::any_of(comms, &ncclComm::aborted); };
  const cudaError_t result = fake::capture(
      streams,
      [operations, are_aborted] {
        if (are_aborted()) return;
        for (const auto& operation : operations) operation->run();
      },
      [are_aborted] { return !fake::machine().collectives_hang || are_aborted(); });
  return result == cudaSuccess ? ncclInProgress : ncclUnhandledCudaError;
}

}  // namespace

extern "C" {

const char* ncclGetErrorString(ncclResult_t) { return "a fake result"; }
const char* ncclGetLastError(ncclComm_t) { return "the cable is out"; }
ncclResult_t ncclGetVersion(int* version) { return *version = fake::machine().nccl_version, ncclSuccess; }
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const auto held = fake::lock();
  static int made = 0;
  std::memset(id, 0, sizeof *id);
  std::memcpy(id->internal, &++made, sizeof made);
  groups()[{id->internal, sizeof id->internal}] =
      std::make_shared<ncclComm::Group>(ncclComm::Group{.processes = std::this_thread::get_id()});
  ++fake::machine().connections;
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  const auto held = fake::lock();
  if (config->blocking != 0) fake::complain("a blocking communicator");
  fake::machine().max_ctas = config->maxCTAs;
  const auto found = groups().find({id.internal, sizeof id.internal});
  if (found == groups().end()) return ncclInvalidArgument;
  const std::shared_ptr<ncclComm::Group> group = found->second;
  if (group->ranks > 0 && group->size != size) fake::complain("ranks of communicators of several sizes");
  group->size = size;
  if (group->processes != std::this_thread::get_id()) group->processes = {};
  if (++group->ranks == size) groups().erase(found);
  int card = 0;
  cudaGetDevice(&card);
  *comm = new ncclComm{group, rank, card};
  return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  if (const auto at_question = fake::machine().at_question) at_question();
  const auto held = fake::lock();
  ++fake::machine().questions;
  if (!fake::machine().launch_one_rank) fake::machine().rank_waits = false;
  if (fake::machine().rank_waits) return *state = ncclInProgress, ncclSuccess;
  if (!comm->unlaunched.empty()) {  // in NCCL by a thread of its own
    launch(comm);
    comm->busy = false;
    return *state = ncclInProgress, ncclSuccess;
  }
  *state = comm->busy || comm->group->ranks < comm->group->size ? ncclInProgress
           : fake::machine().collectives_fail && comm->pending  ? ncclRemoteError
                                                                : ncclSuccess;
  comm->busy = false;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const auto held = fake::lock();
  ++fake::machine().aborts;
  comm->aborted = true;  // not deleted, because its work still uses it
  comm->unlaunched.clear();
  comm->group->lost_rank = true;
  static auto* const kept = new std::vector<ncclComm_t>;
  kept->push_back(comm);
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  const auto held = fake::lock();
  return comm->busy = true, ncclInProgress;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  fake::may_wait_for_cards("ncclCommDestroy");
  const auto held = fake::lock();
  if (comm->pending) fake::complain("a communicator destroyed while it works");
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (--depth > 0) return ncclSuccess;
  const auto held = fake::lock();
  if (!grouped.empty() && fake::is_capturing(grouped.front().stream)) return capture_group();
  for (const Call& call : grouped) {
    call.comm->busy = call.comm->pending = true;
    call.comm->unlaunched.push_back(call);
  }
  fake::machine().rank_waits = fake::machine().launch_one_rank && !grouped.empty();
  grouped.clear();
  return ncclInProgress;
}

ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  if (count == 0) return ncclSuccess;
  return add(comm, stream, {Kind::all_reduce, count, std::size_t(comm->group->size), dtype_of(type), op_of(op), 0}, 0,
             0, send, receive);
}
ncclResult_t ncclReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                        int root, ncclComm_t comm, cudaStream_t stream) {
  if (count == 0) return ncclSuccess;
  return add(comm, stream, {Kind::reduce, count, std::size_t(comm->group->size), dtype_of(type), op_of(op), root}, root,
             0, send, receive);
}
ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  if (count == 0) return ncclSuccess;
  return add(comm, stream,
             {Kind::broadcast, count, std::size_t(comm->group->size), dtype_of(type), ReduceOp::sum, root}, root, 0,
             send, receive);
}
ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  for (int root = 0; root < comm->group->size; ++root)
    ncclReduce(static_cast<const char*>(send) + std::size_t(root) * count * size_of(dtype_of(type)), receive, count,
               type, op, root, comm, stream);
  return ncclInProgress;
}
ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  for (int root = 0; root < comm->group->size; ++root)
    ncclBroadcast(send, static_cast<char*>(receive) + std::size_t(root) * count * size_of(dtype_of(type)), count, type,
                  root, comm, stream);
  return ncclInProgress;
}
ncclResult_t ncclSend(const void* send, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add(comm, stream, {Kind::message, count, 2, dtype_of(type), ReduceOp::sum, comm->rank}, comm->rank, peer, send,
             nullptr);
}
ncclResult_t ncclRecv(void* receive, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add(comm, stream, {Kind::message, count, 2, dtype_of(type), ReduceOp::sum, peer}, peer, comm->rank, nullptr,
             receive);
}

}  // extern "C"
