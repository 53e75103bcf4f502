// A communicator by NCCL: one ncclComm_t for each rank of this process, one group of NCCL calls per operation. The
// ranks of other processes join with the same ncclUniqueId, which process 0 makes.
//
// NCCL's communicators are non-blocking, so that all waits have a limit. If an NCCL call does not finish in time, or an
// operation does not end within its limit after this process's ranks have reached it, all ranks are aborted at once.
// After a failure in a single process the next operation creates new communicators.
//
// With several processes a failure in one ends all of them, through their common transport, because NCCL does not
// notice that a process is lost. All limits are then the transport's.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include <lockstep/core/error.h>
#include <lockstep/distributed/world.h>

#include "backends/cuda/communicator.h"
#include "backends/cuda/cuda_stream.h"
#include "backends/cuda/nccl_calls.h"
#include "core/ranked_mutex.h"
#include "core/text.h"
#include "distributed/transport.h"
#include "runtime/collectives/collective_call.h"

namespace lockstep::gpu {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

constexpr seconds kConnectLimit(120);  // NCCL opens sockets, maps memory and measures links
constexpr seconds kSelfTestLimit(30);
constexpr seconds kEnqueueLimit(120);  // the first operation of a kind may connect more channels
constexpr seconds kAbortLimit(5);

// A wait for NCCL spins for this long before it sleeps: NCCL hands each group to a thread of its own, which usually
// finishes earlier than a sleep would end.
constexpr std::chrono::microseconds kAwake(500);

bool wait_until(milliseconds limit, const std::function<bool()>& done) {
  const auto begin = Clock::now();
  while (!done()) {
    const auto waited = Clock::now() - begin;
    if (waited > limit) return false;
    if (waited < kAwake)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

std::string advice() {
  int driver = 0, runtime = 0, library = 0;
  static_cast<void>(cudaDriverGetVersion(&driver));
  static_cast<void>(cudaRuntimeGetVersion(&runtime));
  static_cast<void>(nccl().ncclGetVersion(&library));
  return text(
      ". What to try: NCCL_DEBUG=INFO shows where it stops; NCCL_P2P_DISABLE=1: if that helps, switch off PCIe ACS or "
      "the IOMMU; NCCL_SHM_DISABLE=1: if that helps, give /dev/shm more room (docker run --shm-size=1g); other "
      "versions of the driver (for CUDA ",
      driver, " here), the runtime (", runtime, ") and NCCL (", library, ')');
}

// Checks the result of a call of NCCL before there is a communicator.
void check_connecting(ncclResult_t result) {
  if (result != ncclSuccess)
    throw CollectiveError(0, "connect", 0,
                          text(nccl().ncclGetErrorString(result), ": ", nccl().ncclGetLastError(nullptr), advice()));
}

// Returns process 0's ncclUniqueId, sent over the transport.
ncclUniqueId common_id(const Peers& peers) {
  ncclUniqueId id = {};
  if (peers.process == 0) check_connecting(nccl().ncclGetUniqueId(&id));
  if (!peers.transport) return id;
  const std::string bytes =
      World(peers.transport).broadcast(std::string(id.internal, sizeof id.internal), "connecting NCCL");
  std::copy_n(bytes.begin(), std::min(bytes.size(), sizeof id.internal), id.internal);
  return id;
}

class NcclCommunicator final : public CudaCommunicator {
 public:
  NcclCommunicator(std::vector<Member> members, const Peers& peers, const CommunicatorOptions& options)
      : members_(std::move(members)),
        peers_(peers),
        options_(options),
        first_rank_(peers.first_rank()),
        size_(peers.size()),
        id_(common_id(peers)) {}

  ~NcclCommunicator() override {
    const std::scoped_lock lock(mutex_);
    if (finalize())
      for (ncclComm_t comm : comms_) nccl().ncclCommDestroy(comm);
    else
      abort_ranks();
  }

  void drain() noexcept override {
    const std::scoped_lock lock(mutex_);
    has_drained();
  }

  void start() override {
    const std::scoped_lock lock(mutex_);
    connect();
    self_test();
  }

  void enqueue(const CollectiveCall& call) override {
    const std::scoped_lock lock(mutex_);
    last_ = {call.name, bytes_of(call)};
    check_peers();
    if (comms_.empty()) {
      id_ = common_id(peers_);  // only a single process gets here: with several, check_peers() throws after a failure
      connect();
    }
    if (call.kind == CollectiveKind::barrier && !peers_.transport) {  // events order the streams, without NCCL
      join_streams(call.parts);
      return fork_streams(call.parts);
    }
    // A captured operation is not watched, but the launches of its graph are.
    const bool is_captured = is_capturing(stream_of(call.parts.front().stream));
    if (!is_captured) watch(call);
    group([&](std::size_t rank) {
      if (call.kind == CollectiveKind::barrier) return enqueue_token(rank, call.parts[rank]);
      return enqueue_rank(call, rank, comms_[rank], stream_of(call.parts[rank].stream).stream.get());
    });
    wait_until_ready(kEnqueueLimit, "");
    for (std::size_t rank = 0; rank < members_.size() && !is_captured; ++rank)
      record_event(watched_.back().ended[rank], stream_of(call.parts[rank].stream));
  }

  void watch_launch(StreamHandle origin, bool is_enqueued) override {
    const std::scoped_lock lock(mutex_);
    const CudaStream& stream = stream_of(origin);
    if (!is_enqueued) {
      last_ = {"a captured step", 0};
      forget_ended();
      launching_.push_back(begin_watch(std::array{Member{stream.device, stream.card}}));
      return record_event(launching_.back().begun[0], stream);
    }
    if (launching_.empty()) return;
    record_event(launching_.back().ended[0], stream);
    watched_.push_back(std::move(launching_.back()));
    launching_.pop_back();
  }

  void abort() noexcept override {
    stopping_ = true;  // makes the thread that holds the lock stop waiting
    const std::scoped_lock lock(mutex_);
    try {
      use_some_card(members_.front().card);
      if (is_pending()) failure_ = std::make_exception_ptr(error(0, "the communicator was aborted"));
    } catch (...) {
      failure_ = std::current_exception();
    }
    if (peers_.transport) peers_.transport->fail(error(0, "the communicator was aborted").what());
    abort_ranks();
  }

  std::uint64_t failures() const noexcept override { return failures_; }

  std::exception_ptr failure() noexcept override {
    const std::unique_lock lock(mutex_, std::try_to_lock);  // a thread that is enqueuing checks for failures itself
    if (!lock) return nullptr;
    try {
      if (const std::optional<std::size_t> rank = failed_rank()) fail(*rank, "");
      if (!comms_.empty() && !watched_.empty()) check_cards();
      if (is_pending()) {
        check_peers();
        check_watched();
      }
    } catch (...) {
      failure_ = std::current_exception();
    }
    return std::exchange(failure_, nullptr);
  }

 private:
  struct Operation {
    const char* name = "connect";
    std::size_t bytes = 0;
  };

  void connect() {
    watched_.clear();
    launching_.clear();
    tokens_.clear();
    for (const Member& member : members_) {
      use_card(member.card);
      if (peers_.transport) tokens_.push_back(make_memory(member.device, sizeof(int)));
    }
    comms_.assign(members_.size(), nullptr);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    if (options_.max_ctas > 0) config.maxCTAs = options_.max_ctas;
    group([&](std::size_t rank) {
      use_card(members_[rank].card);
      return nccl().ncclCommInitRankConfig(&comms_[rank], int(size_), id_, int(first_rank_ + rank), &config);
    });
    wait_until_ready(kConnectLimit, advice());
  }

  // A barrier of several processes: an all-reduce of one number with an unused result.
  ncclResult_t enqueue_token(std::size_t rank, const CollectivePart& part) {
    void* const token = tokens_[rank].get();
    return nccl().ncclAllReduce(token, token, 1, ncclInt32, ncclMax, comms_[rank], stream_of(part.stream).stream.get());
  }

  // Returns true if all enqueued operations have ended.
  bool has_drained() noexcept try {
    use_some_card(members_.front().card);
    return wait_until(limit(options_.time_limit), [this] { return is_over() || !is_pending(); }) && !is_over();
  } catch (...) {
    return false;
  }

  // Waits for all enqueued operations, then finalizes NCCL's communicators. Returns true if they can be destroyed.
  bool finalize() noexcept try {
    if (!has_drained()) return false;
    for (ncclComm_t comm : comms_)
      if (comm == nullptr || is_nccl_error(nccl().ncclCommFinalize(comm))) return false;
    return wait_until(limit(kEnqueueLimit), [this] { return is_over() || !is_busy(); }) && !is_over();
  } catch (...) {
    return false;
  }

  // One rank's number for the self-test, and the stream of its all-reduce.
  struct Summand {
    OwnedMemory number;
    OwnedStream stream;

    // If the all-reduce has not ended in time, it could not be aborted. cudaFree could then block for ever, so the
    // memory is leaked on purpose.
    ~Summand() {
      const auto ended = [this] { return cudaStreamQuery(stream.get()) != cudaErrorNotReady; };
      if (stream && !wait_until(kAbortLimit, ended)) static_cast<void>(number.release());
      cudaGetLastError();  // hide the error from later calls
    }
  };

  // Tests that the cards can communicate: all-reduces a known number, on new streams, and checks the sum.
  void self_test() {
    last_ = {"self-test", sizeof(int)};
    std::vector<Summand> summands(members_.size());
    for (std::size_t rank = 0; rank < members_.size(); ++rank) {
      const auto [device, card] = members_[rank];
      use_card(card);
      Summand& summand = summands[rank];
      summand.number = make_memory(device, sizeof(int));
      summand.stream = make_stream(device, 0);
      check(cudaMemsetAsync(summand.number.get(), 1, sizeof(int), summand.stream.get()), "cudaMemsetAsync", device);
    }
    group([&](std::size_t rank) {
      const auto& [number, stream] = summands[rank];
      return nccl().ncclAllReduce(number.get(), number.get(), 1, ncclInt32, ncclSum, comms_[rank], stream.get());
    });
    wait_until_ready(kSelfTestLimit, advice());
    for (std::size_t rank = 0; rank < members_.size(); ++rank) {
      const milliseconds longest = limit(kSelfTestLimit);
      const bool ended = wait_until(longest, [&] {
        check_ranks(advice());
        return has_ended(summands[rank].stream.get(), members_[rank].device);
      });
      if (!ended)
        fail(rank,
             text("the self-test, an all-reduce of one number, did not end within ", longest.count(), " ms", advice()));
    }
    constexpr int kOne = 0x01010101;
    for (std::size_t rank = 0; rank < members_.size(); ++rank) {
      use_card(members_[rank].card);
      int sum = 0;
      check(cudaMemcpy(&sum, summands[rank].number.get(), sizeof sum, cudaMemcpyDeviceToHost), "cudaMemcpy",
            members_[rank].device);
      if (sum != kOne * int(size_))
        fail(rank,
             text("the self-test, an all-reduce of one number, expected ", kOne * int(size_), ", got ", sum, advice()));
    }
  }

  // Makes one call per rank, as one group. NCCL makes the cards current itself.
  template <class F>
  void group(F&& call_of_rank) {
    nccl().ncclGroupStart();
    ncclResult_t result = ncclSuccess;
    std::size_t rank = 0;
    try {
      for (; rank < members_.size(); ++rank) {
        result = call_of_rank(rank);
        if (is_nccl_error(result)) break;
      }
    } catch (...) {  // end the group in any case
      nccl().ncclGroupEnd();
      throw;
    }
    const ncclResult_t end = nccl().ncclGroupEnd();
    if (is_nccl_error(result)) fail(rank, nccl().ncclGetErrorString(result));
    if (is_nccl_error(end)) fail(failed_rank().value_or(0), nccl().ncclGetErrorString(end));
  }

  // Waits until NCCL has processed all calls so far on the host, that is, until none returns ncclInProgress.
  void wait_until_ready(seconds of_one_process, const std::string& hint) {
    const milliseconds longest = limit(of_one_process);
    const bool is_ready = wait_until(longest, [&] {
      check_ranks(hint);
      return stopping_ || !is_busy();
    });
    if (stopping_) throw error(0, "the communicator was aborted");
    if (!is_ready) fail(0, text("NCCL was not ready within ", longest.count(), " ms", hint));
  }

  milliseconds limit(milliseconds of_one_process) const {
    return peers_.transport ? peers_.transport->time_limit() : of_one_process;
  }

  // Throws if a rank of this process, or another process, has failed.
  void check_ranks(const std::string& hint) {
    check_peers();
    if (const std::optional<std::size_t> rank = failed_rank()) fail(*rank, hint);
  }
  void check_peers() {
    if (!peers_.transport) return;
    if (const std::optional<std::string> failure = peers_.transport->failure()) end_with(error(0, *failure));
  }
  bool is_over() const { return failed_rank() || (peers_.transport && peers_.transport->failure()); }

  // An operation that may not have ended yet.
  struct Watched {
    Operation operation = {};
    std::vector<int> devices = {};
    std::vector<OwnedEvent> begun = {}, ended = {};  // one event per device
    std::optional<Clock::time_point> since = {};     // when all of the devices had reached it
  };

  void watch(const CollectiveCall& call) {
    forget_ended();
    Watched watched = begin_watch(members_);
    for (std::size_t rank = 0; rank < members_.size(); ++rank)
      record_event(watched.begun[rank], stream_of(call.parts[rank].stream));
    watched_.push_back(std::move(watched));
  }

  Watched begin_watch(std::span<const Member> members) {
    const auto fits = [&](const Watched& spare) {
      return std::ranges::equal(spare.devices, members, {}, {}, &Member::device);
    };
    if (const auto spare = std::ranges::find_if(unwatched_, fits); spare != unwatched_.end()) {
      Watched watched = std::move(*spare);
      unwatched_.erase(spare);
      watched.operation = last_;
      watched.since.reset();
      return watched;
    }
    Watched watched = {.operation = last_};
    for (const Member& member : members) {
      use_card(member.card);
      watched.devices.push_back(member.device);
      watched.begun.push_back(make_event(member.device));
      watched.ended.push_back(make_event(member.device));
    }
    return watched;
  }

  void forget_ended() {
    for (; !watched_.empty() && have_passed(watched_.front(), &Watched::ended); watched_.pop_front())
      unwatched_.push_back(std::move(watched_.front()));
  }

  // Fails if a card has failed. NCCL does not notice that.
  void check_cards() {
    const std::vector<OwnedEvent>& ended = watched_.back().ended;
    for (std::size_t i = 0; i < ended.size(); ++i) {
      const cudaError_t state = cudaEventQuery(ended[i].get());
      if (state != cudaErrorNotReady && state != cudaSuccess) fail(i, cudaGetErrorString(state));
    }
  }

  // Checks the time of the first operation that has not ended; the later ones wait for it.
  void check_watched() {
    forget_ended();
    if (watched_.empty() || !have_passed(watched_.front(), &Watched::begun)) return;
    Watched& first = watched_.front();
    if (!first.since) first.since = Clock::now();
    const milliseconds longest = limit(options_.time_limit);
    if (Clock::now() - *first.since <= longest) return;
    last_ = first.operation;
    if (peers_.transport)
      fail(0, text("not all processes called ", last_.name, " within ", longest.count(),
                   " ms, or they called it with different counts, dtypes or roots"));
    fail(0, text(last_.name, " has not ended within ", longest.count(), " ms (CommunicatorOptions::time_limit)",
                 advice()));
  }

  ncclResult_t state_of(std::size_t rank) const {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = nccl().ncclCommGetAsyncError(comms_[rank], &state);
    return asked == ncclSuccess ? state : asked;
  }
  std::optional<std::size_t> failed_rank() const {
    for (std::size_t rank = 0; rank < comms_.size(); ++rank)
      if (comms_[rank] && is_nccl_error(state_of(rank))) return rank;
    return std::nullopt;
  }
  bool is_busy() const {
    for (std::size_t rank = 0; rank < comms_.size(); ++rank)
      if (comms_[rank] && state_of(rank) == ncclInProgress) return true;
    return false;
  }

  static bool have_passed(const Watched& watched, std::vector<OwnedEvent> Watched::*events) {
    for (std::size_t i = 0; i < watched.devices.size(); ++i)
      if (!has_ended((watched.*events)[i].get(), watched.devices[i])) return false;
    return true;
  }
  bool is_pending() const {  // false after a failure
    return !comms_.empty() && !watched_.empty() && !have_passed(watched_.back(), &Watched::ended);
  }

  CollectiveError error(std::size_t rank, std::string_view reason) const {
    std::string where = text("cuda:", members_[rank].device);
    if (peers_.transport)
      where += text(" of process ", peers_.process, " on ", peers_.transport->host(int(peers_.process)));
    return {int(first_rank_ + rank), last_.name, last_.bytes, text(reason, " (on ", where, ')')};
  }

  // Aborts all ranks, and throws the reason.
  [[noreturn]] void fail(std::size_t rank, std::string_view reason) {
    std::string why(reason);
    if (rank < comms_.size() && comms_[rank]) {
      if (const ncclResult_t state = state_of(rank); is_nccl_error(state))
        why = text(nccl().ncclGetErrorString(state), why.empty() ? "" : ": ", why);
      if (const char* const last = nccl().ncclGetLastError(comms_[rank]); last && *last)
        why = text("NCCL says: ", last, "; ", why);
    }
    end_with(error(rank, why));
  }

  [[noreturn]] void end_with(const CollectiveError& failure) {
    if (peers_.transport) peers_.transport->fail(failure.what());  // first, because aborting the ranks may take a while
    abort_ranks();
    throw failure;
  }

  // One rank's abort may wait for another's, so each runs on its own thread. A thread that takes too long is abandoned.
  void abort_ranks() noexcept {
    ++failures_;
    const std::vector<ncclComm_t> comms = std::exchange(comms_, {});
    try {
      const auto left = std::make_shared<std::atomic<int>>(0);
      for (std::size_t rank = 0; rank < comms.size(); ++rank) {
        if (!comms[rank]) continue;
        ++*left;
        std::thread([left, comm = comms[rank], card = members_[rank].card] {
          static_cast<void>(cudaSetDevice(card));
          nccl().ncclCommAbort(comm);
          --*left;
        }).detach();
      }
      wait_until(kAbortLimit, [&] { return *left == 0; });
    } catch (...) {  // no threads available: the communicators leak
    }
  }

  const std::vector<Member> members_;
  const Peers peers_;
  const CommunicatorOptions options_;
  const std::size_t first_rank_, size_;
  std::atomic<bool> stopping_ = false;
  std::atomic<std::uint64_t> failures_ = 0;
  RankedMutex<LockRank::nccl_communicator> mutex_;  // guards the members below
  ncclUniqueId id_;
  std::vector<ncclComm_t> comms_;    // empty after a failure
  std::vector<OwnedMemory> tokens_;  // one per rank, for barriers of several processes
  std::deque<Watched> watched_;      // in the order of enqueuing
  std::vector<Watched> launching_;   // of graphs that are being launched
  std::vector<Watched> unwatched_;   // for reuse
  Operation last_;
  std::exception_ptr failure_;
};

}  // namespace

std::unique_ptr<CudaCommunicator> make_nccl_communicator(std::vector<Member> members, const Peers& peers,
                                                         const CommunicatorOptions& options) {
  check_nccl_version();
  return std::make_unique<NcclCommunicator>(std::move(members), peers, options);
}

}  // namespace lockstep::gpu
