#include "runtime/cuda/cuda_backend.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

#include <lockstep/core/error.h>

#include "core/text.h"
#include "runtime/cuda/communicator.h"
#include "runtime/cuda/copies.h"
#include "runtime/cuda/cuda_stream.h"
#include "runtime/cuda/device_memory.h"
#include "runtime/cuda/pinned_cache.h"

namespace lockstep {
namespace gpu {
namespace {

// A user's device: a card, or a share of one.
struct CudaDevice {
  CudaDevice(int index, int on_card, DeviceProperties about, std::size_t arena_bytes, std::mutex& issuing)
      : card(on_card),
        properties(std::move(about)),
        memory(index, properties.memory_bytes, arena_bytes),
        pinned(index, issuing) {}

  const int card;
  const DeviceProperties properties;
  DeviceMemory memory;
  PinnedCache pinned;
  std::mutex mutex;
  std::vector<std::unique_ptr<CudaStream>> streams;  // guarded by the mutex; each lives as long as the device
};

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(const CudaOptions& options);
  ~CudaBackend() override;  ///< Lets all work end first.

  DeviceType type() const noexcept override { return DeviceType::cuda; }
  bool launches_grids() const noexcept override { return true; }
  int device_count() const noexcept override { return int(devices_.size()); }
  DeviceProperties properties(int device) const override { return at(device).properties; }

  void* allocate(int device, std::size_t bytes) override;
  void deallocate(int device, void* memory, std::size_t bytes) noexcept override;

  void* create_stream(int device, int id, StreamPriority priority) override;
  bool query_stream(StreamHandle stream) override;
  void synchronize_stream(StreamHandle stream) override;
  EventHandle create_event(int device) override;
  void destroy_event(EventHandle event) noexcept override;
  void record(EventHandle event, StreamHandle stream) override;
  void wait(StreamHandle stream, EventHandle event) override;
  bool query_event(EventHandle event) override;
  void synchronize_event(EventHandle event) override;

  void launch(StreamHandle stream, const LaunchInfo& info, KernelRef kernel) override;
  void copy(StreamHandle stream, const Copy& copy) override;
  void matmul(StreamHandle stream, const Matmul& matmul) override;

  CommunicatorHandle create_communicator(std::span<const int> devices) override;
  void destroy_communicator(CommunicatorHandle communicator) noexcept override;
  void abort_communicator(CommunicatorHandle communicator) noexcept override;
  void collective(CommunicatorHandle communicator, const CollectiveCall& call) override;

 private:
  CudaDevice& at(int device) const { return *devices_[std::size_t(device)]; }
  static cudaEvent_t event_of(EventHandle event) { return static_cast<cudaEvent_t>(event); }

  void reach_peers();
  void look_for_failures();
  void tell_failures();
  void check_cards();
  template <class Query>
  void wait_until(Query&& ended);

  const CudaOptions options_;
  // Collectives enter the streams of all devices in one order. And while not all ranks of one are launched, nobody
  // takes or gives back memory: CUDA may wait for a card then, whose rank waits for one that is not launched.
  std::mutex issuing_;
  std::vector<std::unique_ptr<CudaDevice>> devices_;
  std::once_flag peers_;
  std::mutex mutex_;
  // Guarded by the mutex:
  std::vector<std::unique_ptr<CudaCommunicator>> communicators_;
  std::vector<std::exception_ptr> failures_;  // that the host was not told of
};

CudaBackend::CudaBackend(const CudaOptions& options) : options_(options) {
  for (std::size_t i = 0; i < options.cards.size(); ++i) {
    const int card = options.cards[i];
    cudaDeviceProp about;
    check_card(cudaGetDeviceProperties(&about, card), "cudaGetDeviceProperties", card);
    const auto sharing = std::size_t(std::ranges::count(options.cards, card));
    devices_.push_back(std::make_unique<CudaDevice>(
        int(i), card, DeviceProperties{about.name, about.totalGlobalMem / sharing}, options.arena_bytes, issuing_));
  }
  // Read by NCCL when it is first used; what the user has set stays. Sums are then added in one order for all sizes.
  if (!options.deterministic) return;
  for (const auto& [name, value] :
       {std::pair{"NCCL_ALGO", "Ring"}, {"NCCL_PROTO", "Simple"}, {"NCCL_NVLS_ENABLE", "0"}})
    ::setenv(name, value, 0);
}

CudaBackend::~CudaBackend() {
  communicators_.clear();
  for (const auto& device : devices_)
    for (const auto& stream : device->streams) cudaStreamSynchronize(stream->stream.get());
}

// Memory.

void* CudaBackend::allocate(int device, std::size_t bytes) {
  const CardScope scope(at(device).card);
  const std::scoped_lock lock(issuing_);
  return at(device).memory.allocate(bytes);
}

// cudaFree waits for the card without a limit, and a collective that cannot end would hold it. So the wait is ours.
void CudaBackend::deallocate(int device, void* memory, std::size_t bytes) noexcept {
  if (memory == nullptr) return;
  try {
    std::vector<cudaStream_t> streams;
    {
      const std::scoped_lock lock(at(device).mutex);
      for (const auto& stream : at(device).streams) streams.push_back(stream->stream.get());
    }
    const CardScope scope(at(device).card);
    for (cudaStream_t stream : streams)
      wait_until([&] { return has_ended(cudaStreamQuery(stream), "cudaStreamQuery", device); });
    const std::scoped_lock lock(issuing_);
    at(device).memory.deallocate(memory, bytes);
  } catch (...) {  // the card has failed; the host is told where it synchronizes
  }
}

// Streams and events.

void* CudaBackend::create_stream(int device, int, StreamPriority priority) {
  const CardScope scope(at(device).card);
  int least = 0, greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange", device);
  auto stream = std::make_unique<CudaStream>();
  stream->device = device;
  stream->card = at(device).card;
  {
    const std::scoped_lock lock(issuing_);
    stream->workspace = make_memory(device, KernelContext::kWorkspaceBytes);
  }
  stream->stream = make_stream(device, priority == StreamPriority::high ? greatest : least);
  const std::scoped_lock lock(at(device).mutex);
  return at(device).streams.emplace_back(std::move(stream)).get();
}

bool CudaBackend::query_stream(StreamHandle handle) {
  const CudaStream& stream = stream_of(handle);
  const CardScope scope(stream.card);
  const bool ended = has_ended(cudaStreamQuery(stream.stream.get()), "cudaStreamQuery", stream.device);
  look_for_failures();
  tell_failures();
  return ended;
}

void CudaBackend::synchronize_stream(StreamHandle handle) {
  const CudaStream& stream = stream_of(handle);
  const CardScope scope(stream.card);
  wait_until([&] { return has_ended(cudaStreamQuery(stream.stream.get()), "cudaStreamQuery", stream.device); });
  tell_failures();
}

EventHandle CudaBackend::create_event(int device) {
  const CardScope scope(at(device).card);
  return make_event(device).release();
}

void CudaBackend::destroy_event(EventHandle event) noexcept { cudaEventDestroy(event_of(event)); }

void CudaBackend::record(EventHandle event, StreamHandle handle) {
  const CudaStream& stream = stream_of(handle);
  const CardScope scope(stream.card);
  check(cudaEventRecord(event_of(event), stream.stream.get()), "cudaEventRecord", stream.device);
}

void CudaBackend::wait(StreamHandle handle, EventHandle event) {
  const CudaStream& stream = stream_of(handle);
  const CardScope scope(stream.card);
  check(cudaStreamWaitEvent(stream.stream.get(), event_of(event), 0), "cudaStreamWaitEvent", stream.device);
}

// Whoever asks may ask until it has passed. What has failed is told where the host synchronizes.
bool CudaBackend::query_event(EventHandle event) {
  const CardScope scope(devices_.front()->card);  // any of ours will do
  const bool passed = has_ended(cudaEventQuery(event_of(event)), "cudaEventQuery", -1);
  if (!passed) look_for_failures();
  return passed;
}

void CudaBackend::synchronize_event(EventHandle event) {
  const CardScope scope(devices_.front()->card);
  wait_until([&] { return has_ended(cudaEventQuery(event_of(event)), "cudaEventQuery", -1); });
  tell_failures();
}

// Work.

void CudaBackend::launch(StreamHandle handle, const LaunchInfo&, KernelRef kernel) {
  CudaStream& stream = stream_of(handle);
  const CardScope scope(stream.card);
  const std::scoped_lock lock(stream.mutex);
  kernel({.device = stream.device, .native_stream = stream.stream.get(), .workspace = stream.workspace.get()});
}

void CudaBackend::copy(StreamHandle handle, const Copy& copy) {
  CudaStream& stream = stream_of(handle);
  const CardScope scope(stream.card);
  const auto wait = [this, &stream](cudaEvent_t event) {
    wait_until([&] { return has_ended(cudaEventQuery(event), "cudaEventQuery", stream.device); });
  };
  if (copy.from_device < 0) return copy_from_host(copy, at(stream.device).pinned, stream, wait);
  if (copy.to_device < 0) {
    copy_to_host(copy, at(stream.device).pinned, stream, wait);
    return tell_failures();
  }
  const int to = at(copy.to_device).card, from = at(copy.from_device).card;
  if (to != from) reach_peers();
  copy_between_devices(copy, to, from, stream);
}

void CudaBackend::matmul(StreamHandle handle, const Matmul& matmul) {
  CudaStream& stream = stream_of(handle);
  const CardScope scope(stream.card);
  const std::scoped_lock lock(stream.mutex);
  if (!stream.matmuls) {
    const std::scoped_lock no_rank_waits(issuing_);
    stream.matmuls = std::make_unique<MatmulPlans>(stream.device, options_.tf32);
  }
  stream.matmuls->run(matmul, stream.stream.get());
}

// Collectives.

CommunicatorHandle CudaBackend::create_communicator(std::span<const int> devices) {
  std::vector<Member> members;
  bool shared = devices.size() == 1;
  for (const int device : devices) {
    const int card = at(device).card;
    shared = shared || std::ranges::find(members, card, &Member::card) != members.end();
    members.push_back({device, card});
  }
  if (shared) reach_peers();
  std::unique_ptr<CudaCommunicator> communicator;
  {
    const std::scoped_lock lock(issuing_);  // its self-test is a collective
    communicator = shared ? make_shared_card_communicator(members) : make_nccl_communicator(members);
  }
  const std::scoped_lock lock(mutex_);
  return communicators_.emplace_back(std::move(communicator)).get();
}

void CudaBackend::destroy_communicator(CommunicatorHandle handle) noexcept {
  std::unique_ptr<CudaCommunicator> gone;  // ends outside the lock
  const std::scoped_lock lock(mutex_);
  const auto found = std::ranges::find(communicators_, handle, &std::unique_ptr<CudaCommunicator>::get);
  if (found == communicators_.end()) return;
  gone = std::move(*found);
  communicators_.erase(found);
}

void CudaBackend::abort_communicator(CommunicatorHandle handle) noexcept {
  static_cast<CudaCommunicator*>(handle)->abort();
}

void CudaBackend::collective(CommunicatorHandle handle, const CollectiveCall& call) {
  const std::scoped_lock lock(issuing_);
  static_cast<CudaCommunicator*>(handle)->enqueue(call);
}

// Once: every card may reach the memory of every other, where the hardware lets it and has room for one more. Elsewhere
// copies between them go through the host, by the driver.
void CudaBackend::reach_peers() {
  std::call_once(peers_, [this] {
    for (const auto& from : devices_)
      for (const auto& to : devices_) {
        int reaches = 0;
        if (from->card == to->card) continue;
        check_card(cudaDeviceCanAccessPeer(&reaches, from->card, to->card), "cudaDeviceCanAccessPeer", from->card);
        if (!reaches) continue;
        const CardScope scope(from->card);
        const cudaError_t result = cudaDeviceEnablePeerAccess(to->card, 0);
        if (result == cudaErrorPeerAccessAlreadyEnabled || result == cudaErrorTooManyPeers)
          cudaGetLastError();
        else
          check_card(result, "cudaDeviceEnablePeerAccess", from->card);
      }
  });
}

void CudaBackend::look_for_failures() {
  const std::scoped_lock lock(mutex_);
  for (const auto& communicator : communicators_)
    if (std::exception_ptr failure = communicator->failure()) failures_.push_back(std::move(failure));
}

// The host hears of each failure once, whichever stream it asks.
void CudaBackend::tell_failures() {
  std::exception_ptr failure;
  {
    const std::scoped_lock lock(mutex_);
    if (failures_.empty()) return;
    failure = failures_.front();
    failures_.erase(failures_.begin());
  }
  std::rethrow_exception(failure);
}

// CUDA tells the calls about a card alone that it has failed, and not those about a card that waits for it.
void CudaBackend::check_cards() {
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    const std::scoped_lock lock(devices_[i]->mutex);
    if (!devices_[i]->streams.empty())
      has_ended(cudaStreamQuery(devices_[i]->streams.front()->stream.get()), "cudaStreamQuery", int(i));
  }
}

// Waits, and looks meanwhile whether a collective or a card has failed, since then what it waits for would never come.
template <class Query>
void CudaBackend::wait_until(Query&& ended) {
  constexpr int kSpins = 2000;
  for (int polls = 0; !ended(); ++polls) {
    look_for_failures();
    if (polls < kSpins) continue;
    if (polls % kSpins == 0) check_cards();
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  look_for_failures();
}

}  // namespace
}  // namespace gpu

CudaCards find_cuda_cards() {
  int count = 0;  // which CUDA leaves as it is when it fails
  const cudaError_t result = cudaGetDeviceCount(&count);
  if (result == cudaSuccess && count > 0) return {count, 0, ""};
  cudaGetLastError();
  if (result != cudaSuccess && result != cudaErrorInsufficientDriver && result != cudaErrorNoDevice &&
      result != cudaErrorStubLibrary)
    gpu::check(result, "cudaGetDeviceCount", -1);
  const cudaError_t reason = result == cudaSuccess ? cudaErrorNoDevice : result;
  return {0, int(reason), cudaGetErrorString(reason)};
}

std::shared_ptr<Backend> make_cuda_backend(const CudaOptions& options) {
  const int count = find_cuda_cards().count;
  for (const int card : options.cards)
    if (card < 0 || card >= count)
      throw InvalidArgument(text("[cuda] expected one of ", count, " cards, got card ", card));
  return std::make_shared<gpu::CudaBackend>(options);
}

}  // namespace lockstep
