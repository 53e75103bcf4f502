#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "cuda/fake/fake_cuda.h"

// Captured work: each piece with those that it comes after.
struct CUgraph_st {
  struct Node {
    int card;
    std::function<void()> run;
    std::set<int> after;
  };
  std::vector<Node> nodes;
  std::set<cudaStream_t> streams;  // that capture; none once it has ended
  bool is_invalid = false;
};

struct CUgraphExec_st {
  std::vector<CUgraph_st::Node> nodes;
};

struct CUstream_st {
  struct Work {
    std::function<void()> run;
    std::function<bool()> ready;
  };
  int card;
  std::deque<Work> work;
  std::shared_ptr<CUgraph_st> capture = nullptr;
  std::set<int> last = {};  // of the captured work: what comes next on this stream comes after these
};

struct CUevent_st {
  int card;
  std::shared_ptr<bool> passed = std::make_shared<bool>(true);
  std::shared_ptr<CUgraph_st> capture = nullptr;  // that it was recorded in last
  std::set<int> after = {};
};

namespace lockstep::fake {
namespace {

struct Memory {
  std::size_t bytes;
  int card;
  bool usable;
};

thread_local int current_card = 0;
std::map<const std::byte*, Memory> memories;
std::vector<cudaStream_t> streams;

std::size_t used(int card) {
  std::size_t bytes = 0;
  for (const auto& [at, memory] : memories) bytes += memory.card == card ? memory.bytes : 0;
  return bytes;
}

cudaError_t make_memory(void** memory, std::size_t bytes, int card) {
  const auto held = lock();
  if (card >= 0 && used(card) + bytes > machine().card_bytes) return cudaErrorMemoryAllocation;
  const bool usable = !machine().address_only || card < 0;
  if (usable) {
    *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    std::memset(*memory, 0xff, bytes);
  } else {
    *memory = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (*memory == MAP_FAILED) return cudaErrorMemoryAllocation;
  }
  memories[static_cast<std::byte*>(*memory)] = {bytes, card, usable};
  return cudaSuccess;
}

// What every call gives that is about a card's memory or work.
cudaError_t state(int card) { return machine().trapped.contains(card) ? cudaErrorLaunchFailure : cudaSuccess; }

// From CUDA 12 on already to make a card current makes its context, as does every call about memory, streams or events.
void use_card() {
  const auto held = lock();
  machine().contexts.insert(current_card);
}

cudaError_t release(void* memory) {
  const auto held = lock();
  const auto found = memories.find(static_cast<std::byte*>(memory));
  if (memory == nullptr) return cudaSuccess;
  if (found == memories.end()) {
    complain("freed what was not allocated");
    return cudaErrorInvalidValue;
  }
  if (found->second.usable)
    std::free(memory);
  else
    ::munmap(memory, found->second.bytes);
  memories.erase(found);
  return cudaSuccess;
}

std::multiset<const std::byte*> reads;  // where copies that are on their way read

// One of them. It ends with the copy, or with the stream if that goes first.
class Read {
 public:
  explicit Read(const std::byte* from) : at_(reads.insert(from)) {}  // with the lock held
  ~Read() {
    const auto held = lock();
    reads.erase(at_);
  }
  Read(const Read&) = delete;
  Read& operator=(const Read&) = delete;

 private:
  std::multiset<const std::byte*>::iterator at_;
};

std::set<std::pair<int, const void*>> loaded_kernels;  // by card

// A copy or a fill.
cudaError_t enqueue_copy(cudaStream_t stream, std::function<void()> run, const void* from = nullptr) {
  const auto held = lock();
  ++machine().copies;
  const auto* const read = static_cast<const std::byte*>(from);
  if (!read || is_capturing(stream) || state(stream->card) != cudaSuccess) return enqueue(stream, std::move(run));
  return enqueue(stream, [run = std::move(run), reading = std::make_shared<Read>(read)] { run(); });
}

// Not more than cudaDeviceProp::memPitch.
bool is_pitch(std::size_t pitch, std::size_t row_bytes) { return pitch >= row_bytes && pitch <= INT32_MAX; }

void copy_rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t bytes,
               std::size_t rows, int to_card, int from_card) {
  expect_memory("copy", to, (rows - 1) * to_pitch + bytes, to_card);
  expect_memory("copy", from, (rows - 1) * from_pitch + bytes, from_card);
  if (machine().address_only) return;
  for (std::size_t row = 0; row < rows; ++row)
    std::memcpy(static_cast<std::byte*>(to) + row * to_pitch, static_cast<const std::byte*>(from) + row * from_pitch,
                bytes);
}

}  // namespace

Machine& machine() {
  static Machine machine;
  return machine;
}

std::unique_lock<std::recursive_mutex> lock() {
  static std::recursive_mutex mutex;
  return std::unique_lock(mutex);
}

void complain(const std::string& what) {
  const auto held = lock();
  if (machine().complaint.empty()) machine().complaint = what;
}

void may_wait_for_cards(const char* api) {
  const auto held = lock();
  if (machine().rank_waits) complain(std::string(api) + " while a rank waits for one that is not launched");
}

void use_kernel(const void* kernel) {
  const auto held = lock();
  if (loaded_kernels.emplace(current_card, kernel).second) may_wait_for_cards("loading a kernel");
}

cudaError_t capture(std::span<const cudaStream_t> of, std::function<void()> run) {
  const auto held = lock();
  const std::shared_ptr<CUgraph_st> graph = of.front()->capture;
  CUgraph_st::Node node{of.front()->card, std::move(run), {}};
  const int number = int(graph->nodes.size());
  for (const cudaStream_t stream : of) {
    if (stream->capture != graph) {
      complain("work of a stream that captures, and of one that does not");
      return cudaErrorStreamCaptureUnmatched;
    }
    node.after.insert(stream->last.begin(), stream->last.end());
    stream->last = {number};
  }
  graph->nodes.push_back(std::move(node));
  return cudaSuccess;
}

bool is_capturing(cudaStream_t stream) {
  const auto held = lock();
  return stream->capture != nullptr;
}

namespace {

// What asks for work that is captured ends the capture.
cudaError_t invalidate(CUgraph_st& graph, const char* why, cudaError_t error) {
  complain(why);
  graph.is_invalid = true;
  return error;
}

// Of those that all they come after have been done, the last one first: an order that the graph does not forbid.
void do_all(const std::vector<CUgraph_st::Node>& nodes) {
  std::vector<bool> done(nodes.size());
  for (std::size_t left = nodes.size(); left > 0; --left) {
    std::size_t next = nodes.size();
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const std::size_t n = machine().earliest_first ? i : nodes.size() - 1 - i;
      if (!done[n] && std::ranges::all_of(nodes[n].after, [&](int before) { return done[std::size_t(before)]; })) {
        next = n;
        break;
      }
    }
    done[next] = true;
    if (nodes[next].run) nodes[next].run();
  }
}

bool is_joined(const CUgraph_st& graph, std::set<int> reached) {
  for (bool grows = true; grows;) {
    const std::size_t before = reached.size();
    for (const int number : std::set<int>(reached))
      reached.insert(graph.nodes[std::size_t(number)].after.begin(), graph.nodes[std::size_t(number)].after.end());
    grows = reached.size() > before;
  }
  return reached.size() == graph.nodes.size();
}

}  // namespace

cudaError_t enqueue(cudaStream_t stream, std::function<void()> run, std::function<bool()> ready) {
  const auto held = lock();
  if (std::ranges::find(streams, stream) == streams.end()) {
    complain("work for a stream that is gone");
    return cudaErrorInvalidResourceHandle;
  }
  if (stream->capture) {
    if (ready) complain("work that a graph cannot wait for");
    return capture(std::span(&stream, 1), std::move(run));
  }
  if (state(stream->card) == cudaSuccess) stream->work.push_back({std::move(run), std::move(ready)});
  return state(stream->card);
}

void step() {
  const auto held = lock();
  for (std::size_t i = 0; i < streams.size(); ++i) {
    const cudaStream_t stream = streams[machine().earliest_first ? i : streams.size() - 1 - i];
    auto& work = stream->work;
    if (state(stream->card) != cudaSuccess || work.empty() || (work.front().ready && !work.front().ready())) continue;
    const auto run = std::move(work.front().run);
    work.pop_front();
    try {
      run();
    } catch (const std::exception& error) {
      machine().trapped.emplace(stream->card, error.what());
    }
    return;
  }
}

void expect_memory(const char* api, const void* memory, std::size_t bytes, int card) {
  const auto held = lock();
  const auto* const begin = static_cast<const std::byte*>(memory);
  auto after = memories.upper_bound(begin);
  if (after == memories.begin()) return complain(std::string(api) + " of pageable memory");
  const auto& [start, found] = *--after;
  if (begin + bytes > start + found.bytes) return complain(std::string(api) + " beyond an allocation");
  if (card >= -1 && card != found.card) complain(std::string(api) + " of memory of another card");
}

}  // namespace lockstep::fake

using namespace lockstep::fake;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  if (machine().driver_version != 0) return cudaErrorInsufficientDriver;
  *count = machine().cards;
  return machine().cards > 0 ? cudaSuccess : cudaErrorNoDevice;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "Fake card");
  properties->totalGlobalMem = machine().card_bytes;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* card) {
  *card = current_card;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int card) {
  if (card < 0 || card >= machine().cards) return cudaErrorInvalidDevice;
  current_card = card;
  use_card();
  const auto held = lock();
  ++machine().card_switches;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorLaunchFailure && !machine().trapped.empty() ? machine().trapped.begin()->second.c_str()
                                                                       : "a fake error";
}
cudaError_t cudaDriverGetVersion(int* version) { return *version = machine().driver_version, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) { return *can = machine().peers, cudaSuccess; }
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) {
  may_wait_for_cards("cudaDeviceEnablePeerAccess");
  if (machine().peers_full) return cudaErrorTooManyPeers;
  return machine().peers ? cudaSuccess : cudaErrorPeerAccessUnsupported;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes*, const void* kernel) {
  use_card();
  use_kernel(kernel);
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  use_card();
  may_wait_for_cards("cudaMalloc");
  const auto held = lock();
  if (state(current_card) != cudaSuccess) return state(current_card);
  ++machine().allocations;
  return make_memory(memory, bytes, current_card);
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  use_card();
  may_wait_for_cards("cudaHostAlloc");
  const auto held = lock();
  if (state(current_card) != cudaSuccess) return state(current_card);
  if (used(-1) + bytes > machine().pinned_bytes) return cudaErrorMemoryAllocation;
  ++machine().pinned_allocations;
  return make_memory(memory, bytes, -1);
}
cudaError_t cudaFree(void* memory) {
  may_wait_for_cards("cudaFree");
  return release(memory);
}
cudaError_t cudaFreeHost(void* memory) {
  const auto held = lock();
  const auto found = memories.find(static_cast<std::byte*>(memory));
  if (found != memories.end() && machine().trapped.empty()) {
    const auto read = reads.lower_bound(found->first);
    if (read != reads.end() && *read < found->first + found->second.bytes)
      complain("freed page-locked memory that a copy has still to read");
  }
  return release(memory);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  use_card();
  may_wait_for_cards("cudaStreamCreateWithPriority");
  const auto held = lock();
  *stream = new CUstream_st{current_card, {}};
  streams.push_back(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const auto held = lock();
  std::erase(streams, stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  use_card();
  const auto held = lock();
  if (stream->capture)
    return invalidate(*stream->capture, "a question to a stream that captures", cudaErrorStreamCaptureUnsupported);
  if (state(stream->card) != cudaSuccess || stream->work.empty()) return state(stream->card);
  step();
  return cudaErrorNotReady;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  cudaError_t result;
  while ((result = cudaStreamQuery(stream)) == cudaErrorNotReady) {
  }
  return result;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  use_card();
  const auto held = lock();
  if (event->capture) {
    if (event->capture->streams.empty()) return cudaErrorCapturedEvent;
    if (stream->capture && stream->capture != event->capture)
      return invalidate(*stream->capture, "a wait for another capture", cudaErrorStreamCaptureMerge);
    stream->capture = event->capture;
    stream->capture->streams.insert(stream);
    stream->last.insert(event->after.begin(), event->after.end());
    return cudaSuccess;
  }
  if (stream->capture)
    return invalidate(*stream->capture, "a wait for work that is not captured", cudaErrorStreamCaptureIsolation);
  return enqueue(
      stream, [] {}, [passed = event->passed] { return *passed; });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  use_card();
  const auto held = lock();
  return *event = new CUevent_st{.card = current_card}, cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const auto held = lock();
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  use_card();
  const auto held = lock();
  if (event->card != stream->card) return cudaErrorInvalidResourceHandle;
  event->capture = stream->capture;
  event->after = stream->last;
  if (stream->capture) return cudaSuccess;
  if (state(stream->card) == cudaSuccess) event->passed = std::make_shared<bool>(false);
  return enqueue(stream, [passed = event->passed] { *passed = true; });
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  use_card();
  const auto held = lock();
  if (event->capture) return cudaErrorCapturedEvent;
  if (state(event->card) != cudaSuccess || *event->passed) return state(event->card);
  step();
  return cudaErrorNotReady;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  use_card();
  const auto held = lock();
  if (mode != cudaStreamCaptureModeRelaxed) complain("a capture in which other threads may do less");
  if (stream->capture) return cudaErrorIllegalState;
  stream->capture = std::make_shared<CUgraph_st>();
  stream->capture->streams.insert(stream);
  stream->last.clear();
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const auto held = lock();
  *status = !stream->capture              ? cudaStreamCaptureStatusNone
            : stream->capture->is_invalid ? cudaStreamCaptureStatusInvalidated
                                          : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const auto held = lock();
  *graph = nullptr;
  const std::shared_ptr<CUgraph_st> captured = stream->capture;
  if (!captured) return cudaErrorIllegalState;
  const bool joined = is_joined(*captured, stream->last);
  for (const cudaStream_t each : captured->streams) {
    each->capture = nullptr;
    each->last.clear();
  }
  captured->streams.clear();
  if (captured->is_invalid) return cudaErrorStreamCaptureInvalidated;
  if (!joined) return cudaErrorStreamCaptureUnjoined;
  *graph = new CUgraph_st{captured->nodes, {}, false};
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* ready, cudaGraph_t graph, unsigned long long) {
  may_wait_for_cards("cudaGraphInstantiate");
  const auto held = lock();
  *ready = new CUgraphExec_st{graph->nodes};
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const auto held = lock();
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t ready, cudaStream_t stream) {
  use_card();
  const auto held = lock();
  if (stream->capture) complain("a graph that is launched while another one is captured");
  return enqueue(stream, [ready] { do_all(ready->nodes); });
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t ready) {
  may_wait_for_cards("cudaGraphExecDestroy");
  const auto held = lock();
  delete ready;
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  cudaError_t result;
  while ((result = cudaEventQuery(event)) == cudaErrorNotReady) {
  }
  return result;
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t bytes, std::size_t rows, cudaMemcpyKind, cudaStream_t stream) {
  if (!is_pitch(to_pitch, bytes) || !is_pitch(from_pitch, bytes)) return cudaErrorInvalidPitchValue;
  return enqueue_copy(
      stream, [=] { copy_rows(to, to_pitch, from, from_pitch, bytes, rows, -2, -2); }, from);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const int from_card = kind == cudaMemcpyHostToDevice ? -1 : -2;
  return enqueue_copy(
      stream, [=] { copy_rows(to, bytes, from, bytes, bytes, 1, -2, from_card); }, from);
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  const auto held = lock();
  if (state(current_card) == cudaSuccess) std::memcpy(to, from, bytes);
  return state(current_card);
}
cudaError_t cudaMemcpyPeerAsync(void* to, int to_card, const void* from, int from_card, std::size_t bytes,
                                cudaStream_t stream) {
  return enqueue_copy(stream, [=] { copy_rows(to, bytes, from, bytes, bytes, 1, to_card, from_card); });
}
cudaError_t cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms* of, cudaStream_t stream) {
  if (!is_pitch(of->dstPtr.pitch, of->extent.width) || !is_pitch(of->srcPtr.pitch, of->extent.width))
    return cudaErrorInvalidPitchValue;
  return enqueue_copy(stream, [p = *of] {
    copy_rows(p.dstPtr.ptr, p.dstPtr.pitch, p.srcPtr.ptr, p.srcPtr.pitch, p.extent.width, p.extent.height, p.dstDevice,
              p.srcDevice);
  });
}
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  return enqueue_copy(stream, [=] {
    if (!machine().address_only) std::memset(memory, value, bytes);
  });
}

}  // extern "C"
