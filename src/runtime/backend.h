// What a kind of device must be able to do: the one seam between Lockstep and the CPU, simulated GPUs and CUDA.
// All policy (caching, ownership of streams and events, ordering of copies) lives above it, once.
//
// Any thread may call any function. Except where said otherwise a function enqueues and returns; the errors
// of asynchronous work stay with their stream, travel with events to the streams that wait for them, and are
// thrown by synchronize_*. The streams then work on, except on CUDA after an error of a kernel, which ends the device
// (docs/cuda.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <lockstep/core/dtype.h>
#include <lockstep/runtime/communicator.h>
#include <lockstep/runtime/device.h>
#include <lockstep/runtime/kernel.h>
#include <lockstep/runtime/stream.h>

#include "runtime/activation.h"
#include "runtime/fused.h"

namespace lockstep {

/// A stream as its backend made it. `native` is the backend's own: null for the CPU, a CudaStream* for CUDA.
struct StreamHandle {
  int device = 0;
  int id = 0;  ///< Its place among the device's streams; 0 is the default stream.
  void* native = nullptr;
};

using EventHandle = void*;

/// The code of BackendErrors of a device that was lost: CUDA's cudaErrorDevicesUnavailable.
inline constexpr int kDeviceLost = 46;

/// A copy of rows of bytes. A device of -1 is the host. A copy from it has taken the bytes when the call returns,
/// unless they are pinned; a copy to it has delivered them.
struct Copy {
  void* to = nullptr;
  const void* from = nullptr;
  int to_device = -1;
  int from_device = -1;
  std::size_t row_bytes = 0;
  std::size_t rows = 1;
  std::size_t to_pitch = 0;
  std::size_t from_pitch = 0;
  /// From the host, and from memory of Backend::allocate_pinned: the bytes are taken in the order of the stream, and
  /// must be there until then.
  bool pinned = false;
};

/// c = activation(alpha * op(a) op(b) + beta * c (+ bias)) for each of `batch` row-major matrices; op transposes where
/// asked. op(a): [m, k], op(b): [k, n], c: [m, n]; leading dimensions and batch strides in elements.
struct Matmul {
  DType dtype = kFloat32;  ///< Floating, the same for all three.
  std::int64_t m = 0, n = 0, k = 0;
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  const void* bias = nullptr;  ///< [n], added to every row; needs beta == 0. Null for none.
  std::int64_t lda = 0, ldb = 0, ldc = 0;
  bool transpose_a = false, transpose_b = false;
  double alpha = 1, beta = 0;
  Activation activation = Activation::none;  ///< Else needs beta == 0. On CUDA relu may make 0 of NaN.
  std::int64_t batch = 1;
  std::int64_t stride_a = 0, stride_b = 0, stride_c = 0;
};

using CommunicatorHandle = void*;

class Transport;

/// The processes of a communicator. Ranks are counted over all of them, process by process.
struct Peers {
  std::shared_ptr<Transport> transport;    ///< Null for a process alone.
  int channels = 0;                        ///< The first of the transport's channels that are this communicator's.
  std::size_t process = 0;                 ///< This one.
  std::vector<std::size_t> devices = {0};  ///< How many each process has.

  std::size_t size() const noexcept { return std::accumulate(devices.begin(), devices.end(), std::size_t(0)); }
  std::size_t first_rank() const noexcept {
    return std::accumulate(devices.begin(), devices.begin() + std::ptrdiff_t(process), std::size_t(0));
  }
};

enum class CollectiveKind : std::uint8_t {
  all_reduce,
  reduce,
  broadcast,
  reduce_scatter,
  all_gather,
  send_receive,
  barrier,
};

/// One rank's part of a collective; the stream is of the rank's device. Null where the operation has no use for it.
struct CollectivePart {
  StreamHandle stream;
  const void* send = nullptr;
  void* receive = nullptr;
};

/// One operation of all ranks of a communicator, its arguments checked. The parts are those of this process's ranks;
/// counts, roots and transfers are of all ranks. For NCCL this is one group: one call for each part; where `counts`
/// differ, one reduce or broadcast for each root.
struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::barrier;
  const char* name = "";                       ///< A literal.
  std::span<const CollectivePart> parts = {};  ///< By rank, from first_rank on.
  std::size_t first_rank = 0;
  std::size_t ranks = 0;  ///< Of all processes.
  DType dtype = kFloat32;
  ReduceOp op = ReduceOp::sum;
  std::size_t count = 0;                     ///< Elements; of several counts or transfers, their sum.
  std::span<const std::size_t> counts = {};  ///< By rank, of reduce-scatter and all-gather.
  int root = 0;                              ///< Of reduce and broadcast.
  std::span<const Transfer> transfers = {};  ///< Of send-receive.
};

class Graphs;

class Backend {
 public:
  virtual ~Backend() = default;

  virtual DeviceType type() const noexcept = 0;
  virtual int device_count() const noexcept = 0;
  virtual DeviceProperties properties(int device) const = 0;
  /// Whether the device has failed for good: nothing that is enqueued there can succeed any more.
  virtual bool is_lost(int /*device*/) noexcept { return false; }
  /// Where work can be kept and done again; null where it cannot.
  virtual Graphs* graphs() noexcept { return nullptr; }
  /// Whether kernels become grids of many threads here, and do not compute at once: KernelContext::native_stream.
  virtual bool launches_grids() const noexcept { return false; }
  /// Whether convolutions of this dtype are fastest where the channels of a pixel lie together.
  virtual bool prefers_channels_last(DType /*dtype*/) const noexcept { return true; }

  // Memory. deallocate waits for the device's work, as cudaFree does.
  /// Null when the device has no room. Aligned to at least 256 bytes. Throws BackendError for other failures.
  virtual void* allocate(int device, std::size_t bytes) = 0;
  virtual void deallocate(int device, void* memory, std::size_t bytes) noexcept = 0;

  // Page-locked memory of the host, from which devices copy by themselves. To give it back waits for nothing: no copy
  // may be on its way.
  /// Null where there is none, or none left. Aligned to at least 64 bytes. Throws BackendError for other failures.
  virtual void* allocate_pinned(std::size_t /*bytes*/) { return nullptr; }
  virtual void deallocate_pinned(void* /*memory*/, std::size_t /*bytes*/) noexcept {}

  // Streams and events.
  virtual void* create_stream(int device, int id, StreamPriority priority) = 0;
  virtual bool query_stream(StreamHandle stream) = 0;
  virtual void synchronize_stream(StreamHandle stream) = 0;
  virtual EventHandle create_event(int device) = 0;
  virtual void destroy_event(EventHandle event) noexcept = 0;
  virtual void record(EventHandle event, StreamHandle stream) = 0;
  virtual void wait(StreamHandle stream, EventHandle event) = 0;
  /// Waits for nothing: it is asked under a lock that others spin on.
  virtual bool query_event(EventHandle event) = 0;
  virtual void synchronize_event(EventHandle event) = 0;
  /// Told by whoever asks query_event() again and again, between two questions and holding no lock: ends what a failure
  /// has left hanging. (NCCL tells of a failed collective only when it is asked, and until then the events behind it
  /// never pass.)
  virtual void look_for_failures() {}

  // Work.
  virtual void launch(StreamHandle stream, const LaunchInfo& info, KernelRef kernel) = 0;
  virtual void copy(StreamHandle stream, const Copy& copy) = 0;
  virtual void matmul(StreamHandle stream, const Matmul& matmul) = 0;
  /// The bytes of workspace with which the device does the operation as one; nothing where it declines, which depends
  /// on the description alone (no memory is looked at; data may be null).
  virtual std::optional<std::size_t> offers(int /*device*/, const FusedOp& /*op*/) { return std::nullopt; }
  /// Of what was offered. `workspace`: of the device's memory, of as many bytes as offers() said.
  virtual void fused(StreamHandle /*stream*/, const FusedOp& /*op*/, void* /*workspace*/) {}

  // Collectives. A communicator is used by one thread at a time, but aborted by any.
  virtual CommunicatorHandle create_communicator(std::span<const int> devices, const Peers& peers,
                                                 const CommunicatorOptions& options) = 0;
  /// What is enqueued still ends.
  virtual void destroy_communicator(CommunicatorHandle communicator) noexcept = 0;
  /// Ends what is pending with CollectiveError. No collective may follow.
  virtual void abort_communicator(CommunicatorHandle communicator) noexcept = 0;
  virtual void collective(CommunicatorHandle communicator, const CollectiveCall& call) = 0;
  /// How often its operations have failed so far. After each failure what was captured with it cannot be done again.
  virtual std::uint64_t communicator_failures(CommunicatorHandle /*communicator*/) const noexcept { return 0; }
};

}  // namespace lockstep
