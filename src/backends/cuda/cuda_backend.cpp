#include "backends/cuda/cuda_backend.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include <lockstep/core/error.h>

#include "backends/cuda/communicator.h"
#include "backends/cuda/copies.h"
#include "backends/cuda/cuda_device.h"
#include "backends/cuda/cuda_graphs.h"
#include "backends/cuda/nccl_calls.h"
#include "core/ranked_mutex.h"
#include "core/text.h"
#include "distributed/transport.h"

namespace lockstep {
namespace gpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience(60);          // a wait that lasts longer reports a lost card again
constexpr std::chrono::milliseconds kBetweenLooks(1);  // each check for failures queries all communicators or cards

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(const CudaOptions& options);
  ~CudaBackend() override;  ///< Waits for all work first.

  DeviceType type() const noexcept override { return DeviceType::cuda; }
  bool launches_grids() const noexcept override { return true; }
  bool prefers_channels_last(DType dtype) const noexcept override { return options_.tf32 || size_of(dtype) == 2; }
  int device_count() const noexcept override { return int(devices_.size()); }
  DeviceProperties properties(int device) const override { return at(device).properties; }
  bool is_lost(int device) noexcept override;
  Graphs* graphs() noexcept override { return &graphs_; }

  void* allocate(int device, std::size_t bytes) override;
  void deallocate(int device, void* memory, std::size_t bytes) noexcept override;
  void* allocate_pinned(std::size_t bytes) override;
  void deallocate_pinned(void* memory, std::size_t bytes) noexcept override;

  void* create_stream(int device, int id, StreamPriority priority) override;
  bool query_stream(StreamHandle stream) override;
  void synchronize_stream(StreamHandle stream) override;
  EventHandle create_event(int device) override;
  void destroy_event(EventHandle event) noexcept override;
  void record(EventHandle event, StreamHandle stream) override;
  void wait(StreamHandle stream, EventHandle event) override;
  bool query_event(EventHandle event) override;
  void synchronize_event(EventHandle event) override;
  void poll_failures() override;

  void launch(StreamHandle stream, const LaunchInfo& info, KernelRef kernel) override;
  void copy(StreamHandle stream, const Copy& copy) override;
  void matmul(StreamHandle stream, const Matmul& matmul) override;
  bool has_row_sums(StreamHandle stream, const Matmul& matmul) override;
  std::optional<std::size_t> workspace_size(int device, const FusedOp& op) override;
  void fused(StreamHandle stream, const FusedOp& op, void* workspace) override;

  CommunicatorHandle create_communicator(std::span<const int> devices, const Peers& peers,
                                         const CommunicatorOptions& options) override;
  void destroy_communicator(CommunicatorHandle communicator) noexcept override;
  void abort_communicator(CommunicatorHandle communicator) noexcept override;
  void collective(CommunicatorHandle communicator, const CollectiveCall& call) override;
  void watch_launch(CommunicatorHandle communicator, StreamHandle origin, bool is_enqueued) override;
  std::uint64_t communicator_failures(CommunicatorHandle communicator) const noexcept override;

 private:
  CudaDevice& at(int device) const { return *devices_[std::size_t(device)]; }
  static CudaEvent& event_of(EventHandle event) { return *static_cast<CudaEvent*>(event); }
  MatmulPlans& products_of(CudaStream& stream);  // with the stream's mutex held

  void reach_peers();
  void collect_failures();
  void throw_pending_failure();
  void check_cards(Clock::time_point since);
  bool has_work_ended(StreamHandle stream, const char* asking);
  template <class Query>
  void wait_until(Query&& ended, Clock::duration patience = {});

  const CudaOptions options_;
  // Held while the ranks of a collective are launched, so that collectives enter the streams of all devices in one
  // order. Also held in every call in which CUDA may wait for a card: a launched rank occupies its card until the other
  // ranks are launched, and the call would delay these launches forever. Such calls allocate or free memory, create
  // streams, load kernels, plan products, create or destroy communicators, or enable peer access.
  IssueMutex issue_mutex_;
  CudaGraphs graphs_{issue_mutex_};
  std::vector<std::unique_ptr<CudaDevice>> devices_;
  std::once_flag peers_;
  std::atomic<Clock::rep> next_look_ = 0;  // when polling threads next check for failures
  RankedMutex<LockRank::cuda_communicators> mutex_;
  // Guarded by the mutex:
  std::vector<std::unique_ptr<CudaCommunicator>> communicators_;
  std::vector<std::exception_ptr> failures_;  // not yet reported to the host
};

CudaBackend::CudaBackend(const CudaOptions& options) : options_(options) {
  // A process with one card too: it may join others.
  set_nccl_environment(options.deterministic, std::set(options.cards.begin(), options.cards.end()).size() > 1);
  for (std::size_t i = 0; i < options.cards.size(); ++i) {
    const int card = options.cards[i];
    cudaDeviceProp about;
    check_card(cudaGetDeviceProperties(&about, card), "cudaGetDeviceProperties", card);
    const auto sharing = std::size_t(std::ranges::count(options.cards, card));
    devices_.push_back(std::make_unique<CudaDevice>(int(i), card,
                                                    DeviceProperties{about.name, about.totalGlobalMem / sharing, ""},
                                                    about.major, options, issue_mutex_));
  }
}

CudaBackend::~CudaBackend() {
  communicators_.clear();
  for (const auto& device : devices_)
    for (const auto& stream : device->streams) cudaStreamSynchronize(stream->stream.get());
}

// If a card has failed for good, each of its streams returns the error.
bool CudaBackend::is_lost(int device) noexcept try {
  const auto no_capture_begins = graphs_.hold_off();
  if (graphs_.is_active()) return false;  // a query would invalidate the capture
  use_some_card(at(device).card);
  at(device).check_card();
  return false;
} catch (const BackendError&) {
  return true;
}

// Memory.

void* CudaBackend::allocate(int device, std::size_t bytes) {
  use_card(at(device).card);
  const std::scoped_lock lock(issue_mutex_);
  return at(device).memory.allocate(bytes);
}

// cudaFree waits for the card without a limit, and would hang behind a collective that cannot end. So wait here first.
void CudaBackend::deallocate(int device, void* memory, std::size_t bytes) noexcept {
  if (memory == nullptr) return;
  try {
    std::vector<const CudaStream*> streams;
    {
      const std::scoped_lock lock(at(device).mutex);
      for (const auto& stream : at(device).streams) streams.push_back(stream.get());
    }
    use_card(at(device).card);
    for (const CudaStream* stream : streams)  // captured work does not run, and has memory that is not freed here
      wait_until([&] { return graphs_.ask(*stream).value_or(true); }, kPatience);
    const std::scoped_lock lock(issue_mutex_);
    at(device).memory.deallocate(memory, bytes);
  } catch (...) {  // the card has failed; the next synchronization reports it
  }
}

// cudaHostAllocPortable: every card may copy from this memory, not only the current one.
void* CudaBackend::allocate_pinned(std::size_t bytes) {
  int device = 0;
  while (device + 1 < device_count() && is_lost(device)) ++device;
  use_card(at(device).card);
  void* memory = nullptr;
  const std::scoped_lock lock(issue_mutex_);
  return has_room(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable), "cudaHostAlloc", device) ? memory : nullptr;
}

void CudaBackend::deallocate_pinned(void* memory, std::size_t) noexcept try {
  use_some_card(devices_.front()->card);
  const std::scoped_lock lock(issue_mutex_);
  cudaFreeHost(memory);
} catch (...) {  // the card has failed; the next synchronization reports it
}

// Streams and events.

void* CudaBackend::create_stream(int device, int, StreamPriority priority) {
  use_card(at(device).card);
  auto stream = std::make_unique<CudaStream>(device, at(device).card, issue_mutex_);
  {
    const std::scoped_lock issue_lock(issue_mutex_);
    int least = 0, greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange", device);
    stream->workspace = make_memory(device, KernelContext::kWorkspaceBytes);
    stream->stream = make_stream(device, priority == StreamPriority::high ? greatest : least);
  }
  const std::scoped_lock lock(at(device).mutex);
  return at(device).streams.emplace_back(std::move(stream)).get();
}

// Throws if the stream is being captured: `asking` cannot be.
bool CudaBackend::has_work_ended(StreamHandle handle, const char* asking) {
  const CudaStream& stream = stream_of(handle);
  use_some_card(stream.card);
  const std::optional<bool> ended = graphs_.ask(stream);
  if (!ended) refuse_in_capture(asking, handle);
  return *ended;
}

bool CudaBackend::query_stream(StreamHandle handle) {
  const bool ended = has_work_ended(handle, "a query whether work has ended");
  if (ended)
    collect_failures();
  else
    poll_failures();
  throw_pending_failure();
  return ended;
}

void CudaBackend::synchronize_stream(StreamHandle handle) {
  wait_until([&] { return has_work_ended(handle, "a wait of the host"); });
  throw_pending_failure();
}

EventHandle CudaBackend::create_event(int device) {
  CudaDevice& owner = at(device);
  {
    const std::scoped_lock lock(owner.mutex);
    if (!owner.spare_events.empty()) {
      CudaEvent* const event = owner.spare_events.back().release();
      owner.spare_events.pop_back();
      return event;
    }
  }
  use_card(owner.card);
  return new CudaEvent{device, owner.card, make_event(device)};
}

void CudaBackend::destroy_event(EventHandle handle) noexcept {
  std::unique_ptr<CudaEvent> event(&event_of(handle));
  CudaDevice& owner = at(event->device);
  try {
    const std::scoped_lock lock(owner.mutex);
    owner.spare_events.push_back(std::move(event));
  } catch (...) {  // out of memory: the event is destroyed
  }
}

void CudaBackend::record(EventHandle event, StreamHandle handle) {
  const CudaStream& stream = stream_of(handle);
  use_some_card(stream.card);
  record_event(event_of(event).event, stream);
  event_of(event).is_captured = graphs_.is_capturing(handle);
}

void CudaBackend::wait(StreamHandle handle, EventHandle event) {
  const CudaStream& stream = stream_of(handle);
  use_some_card(stream.card);
  std::unique_lock<QuestionMutex> no_questions;
  if (event_of(event).is_captured) no_questions = graphs_.hold_off();  // the stream begins to be captured
  check(cudaStreamWaitEvent(stream.stream.get(), event_of(event).event.get(), 0), "cudaStreamWaitEvent", stream.device);
}

// Does not throw failures of collectives: the next synchronization throws them.
bool CudaBackend::query_event(EventHandle handle) {
  const CudaEvent& event = event_of(handle);
  use_some_card(event.card);
  CudaGraphs::refuse("a query whether work has ended", event);
  return has_ended(event.event.get(), event.device);
}

void CudaBackend::synchronize_event(EventHandle handle) {
  const CudaEvent& event = event_of(handle);
  use_some_card(event.card);
  CudaGraphs::refuse("a wait of the host", event);
  wait_until([&] { return has_ended(event.event.get(), event.device); });
  throw_pending_failure();
}

// Work.

void CudaBackend::launch(StreamHandle handle, const LaunchInfo&, KernelRef kernel) {
  CudaStream& stream = stream_of(handle);
  use_card(stream.card);
  const std::scoped_lock lock(stream.mutex);
  kernel({.device = stream.device,
          .native_stream = stream.stream.get(),
          .workspace = stream.workspace.get(),
          .loader = &stream.kernels});
}

void CudaBackend::copy(StreamHandle handle, const Copy& copy) {
  CudaStream& stream = stream_of(handle);
  use_some_card(stream.card);
  const auto wait = [this, &stream](cudaEvent_t event) { wait_until([&] { return has_ended(event, stream.device); }); };
  if (copy.from_device < 0 || copy.to_device < 0)
    graphs_.refuse(copy.to_device < 0 ? "a copy to the host" : "a copy from the host", handle);
  if (copy.pinned) return copy_from_pinned(copy, stream);
  if (copy.from_device < 0) return copy_from_host(copy, at(stream.device).pinned, stream, wait);
  if (copy.to_device < 0) {
    copy_to_host(copy, at(stream.device).pinned, stream, wait);
    return throw_pending_failure();
  }
  const int to = at(copy.to_device).card, from = at(copy.from_device).card;
  if (to != from) reach_peers();
  copy_between_devices(copy, to, from, stream);
}

MatmulPlans& CudaBackend::products_of(CudaStream& stream) {
  if (!stream.matmuls) stream.matmuls = std::make_unique<MatmulPlans>(stream.device, options_.tf32, issue_mutex_);
  return *stream.matmuls;
}

void CudaBackend::matmul(StreamHandle handle, const Matmul& matmul) {
  CudaStream& stream = stream_of(handle);
  use_card(stream.card);
  const std::scoped_lock lock(stream.mutex);
  products_of(stream).run(matmul, stream.stream.get());
}

bool CudaBackend::has_row_sums(StreamHandle handle, const Matmul& matmul) {
  CudaStream& stream = stream_of(handle);
  use_card(stream.card);
  const std::scoped_lock lock(stream.mutex);
  return products_of(stream).has_row_sums(matmul);
}

std::optional<std::size_t> CudaBackend::workspace_size(int device, const FusedOp& op) {
  use_card(at(device).card);
  return at(device).fused.workspace_size(op);
}

void CudaBackend::fused(StreamHandle handle, const FusedOp& op, void* workspace) {
  CudaStream& stream = stream_of(handle);
  use_card(stream.card);
  const std::scoped_lock lock(stream.mutex);
  at(stream.device).fused.run(op, workspace, stream.stream.get(), stream.kernels);
}

// Collectives.

CommunicatorHandle CudaBackend::create_communicator(std::span<const int> devices, const Peers& peers,
                                                    const CommunicatorOptions& options) try {
  std::vector<Member> members;
  bool shared = devices.size() == 1 && !peers.transport;
  for (const int device : devices) {
    const int card = at(device).card;
    shared = shared || std::ranges::find(members, card, &Member::card) != members.end();
    members.push_back({device, card});
  }
  if (shared && peers.transport)
    throw InvalidArgument(
        "[Communicator] expected a card for each device in a communicator of several processes, got several devices "
        "on one card: give each device its own in LOCKSTEP_DEVICES=cuda:...");
  if (shared) reach_peers();
  std::unique_ptr<CudaCommunicator> communicator =
      shared ? make_shared_card_communicator(members) : make_nccl_communicator(members, peers, options);
  {
    const std::scoped_lock lock(issue_mutex_);  // its self-test is a collective
    communicator->start();
  }
  const std::scoped_lock lock(mutex_);
  return communicators_.emplace_back(std::move(communicator)).get();
} catch (const std::exception& error) {
  if (peers.transport) peers.transport->fail(error.what());  // the other processes wait for this one
  throw;
}

void CudaBackend::destroy_communicator(CommunicatorHandle handle) noexcept {
  std::unique_ptr<CudaCommunicator> gone;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = std::ranges::find(communicators_, handle, &std::unique_ptr<CudaCommunicator>::get);
    if (found == communicators_.end()) return;
    gone = std::move(*found);
    communicators_.erase(found);
  }
  gone->drain();
  const std::scoped_lock issue_lock(issue_mutex_);
  gone.reset();
}

void CudaBackend::abort_communicator(CommunicatorHandle handle) noexcept {
  static_cast<CudaCommunicator*>(handle)->abort();
}

void CudaBackend::watch_launch(CommunicatorHandle handle, StreamHandle origin, bool is_enqueued) {
  static_cast<CudaCommunicator*>(handle)->watch_launch(origin, is_enqueued);
}

std::uint64_t CudaBackend::communicator_failures(CommunicatorHandle handle) const noexcept {
  return static_cast<const CudaCommunicator*>(handle)->failures();
}

void CudaBackend::collective(CommunicatorHandle handle, const CollectiveCall& call) {
  if (call.parts.size() != call.ranks) graphs_.refuse("a collective of several processes", call.parts.front().stream);
  const std::scoped_lock lock(issue_mutex_);
  static_cast<CudaCommunicator*>(handle)->enqueue(call);
}

// Enables peer access, once, for each pair of cards whose hardware supports it and allows one more peer. Between other
// cards the driver copies through the host's memory.
void CudaBackend::reach_peers() {
  std::call_once(peers_, [this] {
    const std::scoped_lock issue_lock(issue_mutex_);
    for (const auto& from : devices_)
      for (const auto& to : devices_) {
        int reaches = 0;
        if (from->card == to->card) continue;
        check_card(cudaDeviceCanAccessPeer(&reaches, from->card, to->card), "cudaDeviceCanAccessPeer", from->card);
        if (!reaches) continue;
        use_card(from->card);
        const cudaError_t result = cudaDeviceEnablePeerAccess(to->card, 0);
        if (result == cudaErrorPeerAccessAlreadyEnabled || result == cudaErrorTooManyPeers)
          cudaGetLastError();
        else
          check_card(result, "cudaDeviceEnablePeerAccess", from->card);
      }
  });
}

void CudaBackend::collect_failures() {
  const std::scoped_lock lock(mutex_);
  for (const auto& communicator : communicators_)
    if (std::exception_ptr failure = communicator->failure()) failures_.push_back(std::move(failure));
}

// Called often, by any number of threads; checks at most once per kBetweenLooks.
void CudaBackend::poll_failures() {
  const Clock::rep now = Clock::now().time_since_epoch().count();
  Clock::rep next = next_look_.load(std::memory_order_relaxed);
  if (now >= next && next_look_.compare_exchange_strong(next, now + Clock::duration(kBetweenLooks).count()))
    collect_failures();
}

// Throws the oldest failure not yet reported: the host gets each failure once, from any stream that it waits for.
void CudaBackend::throw_pending_failure() {
  std::exception_ptr failure;
  {
    const std::scoped_lock lock(mutex_);
    if (failures_.empty()) return;
    failure = failures_.front();
    failures_.erase(failures_.begin());
  }
  std::rethrow_exception(failure);
}

// CUDA reports a failed card only to calls about that card, not to calls about a card that waits for it. Throws if a
// card has failed and its loss was not reported to the host before `since`. If a collective has failed too, throws that
// failure, because its message says more.
void CudaBackend::check_cards(Clock::time_point since) try {
  const auto no_capture_begins = graphs_.hold_off();
  if (graphs_.is_active()) return;  // querying a stream that is being captured would invalidate the capture
  for (const auto& device : devices_)
    if (device->loss_reported_at.load() >= since) device->check_card();
} catch (const Error&) {
  throw_pending_failure();
  throw;
}

// Waits until ended() returns true. Meanwhile checks for failed collectives and cards, since the awaited work may never
// end after such a failure. A card's loss that was reported to the host before the wait is ignored, so that work on
// other cards goes on; a wait longer than kPatience reports it again. Cards are checked only after `patience`.
template <class Query>
void CudaBackend::wait_until(Query&& ended, Clock::duration patience) {
  constexpr int kSpins = 2000;
  const auto begin = Clock::now();
  auto next_look = begin + kBetweenLooks;
  for (int polls = 0; !ended(); ++polls) {
    if (const auto now = Clock::now(); now >= next_look) {
      next_look = now + kBetweenLooks;
      collect_failures();
      if (now - begin >= patience) check_cards(now - begin < kPatience ? begin : Clock::time_point::min());
    }
    if (polls >= kSpins) std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  collect_failures();
}

// With blocking launches, the launch of a collective's first rank would wait forever for the second rank's launch.
void refuse_blocking_launches(std::size_t cards) {
  const char* const blocking = std::getenv("CUDA_LAUNCH_BLOCKING");
  if (cards < 2 || !blocking || std::string_view(blocking).empty() || std::string_view(blocking) == "0") return;
  throw InvalidArgument(text("[cuda] expected CUDA_LAUNCH_BLOCKING=0 or not set with ", cards, " cards, got \"",
                             blocking,
                             "\": a launch would wait until its kernel has ended, so the first rank of a collective "
                             "would wait forever for the second one, which is launched later. What to do: unset it, or "
                             "use one card: LOCKSTEP_DEVICES=cuda:0"));
}

}  // namespace
}  // namespace gpu

std::shared_ptr<Backend> make_cuda_backend(const CudaOptions& options) {
  const int count = find_cuda_cards().count;
  for (const int card : options.cards)
    if (card < 0 || card >= count)
      throw InvalidArgument(text("[cuda] expected one of ", count, " cards, got card ", card));
  gpu::refuse_blocking_launches(std::set(options.cards.begin(), options.cards.end()).size());
  return std::make_shared<gpu::CudaBackend>(options);
}

}  // namespace lockstep
