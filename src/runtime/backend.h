// Backend: the one interface between Lockstep and a kind of device (the CPU, simulated GPUs, CUDA). All policy
// (caching, ownership of streams and events, ordering of copies) is implemented once, above this interface.
//
// Any thread may call any function. Functions enqueue and return, unless documented otherwise. An error of asynchronous
// work stays with its stream, propagates through events to the streams that wait for them, and is thrown by
// synchronize_*. The streams then keep working, except after a kernel error on CUDA, which ends the device
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

#include "runtime/fused_ops/activation.h"
#include "runtime/fused_ops/fused.h"

namespace lockstep {

/// A stream. `native` is the backend's own handle: null for the CPU, a CudaStream* for CUDA.
struct StreamHandle {
  int device = 0;
  int id = 0;  ///< The stream's index among the device's streams; 0 is the default stream.
  void* native = nullptr;
};

using EventHandle = void*;

/// The error code of BackendErrors of a lost device: CUDA's cudaErrorDevicesUnavailable.
inline constexpr int kDeviceLost = 46;

/// A copy of rows of bytes. Device -1 is the host. When the call returns, a copy from the host has read the bytes
/// (unless they are pinned), and a copy to the host has written them.
struct Copy {
  void* to = nullptr;
  const void* from = nullptr;
  int to_device = -1;
  int from_device = -1;
  std::size_t row_bytes = 0;
  std::size_t rows = 1;
  std::size_t to_pitch = 0;
  std::size_t from_pitch = 0;
  /// True for copies from memory of Backend::allocate_pinned. The device reads the bytes in stream order, so they must
  /// stay valid until it has read them.
  bool pinned = false;

  std::size_t bytes() const noexcept { return rows * row_bytes; }
  /// Returns true if no bytes lie between the rows.
  bool is_dense() const noexcept { return rows == 1 || (to_pitch == row_bytes && from_pitch == row_bytes); }
};

/// c = activation(alpha * op(a) op(b) + beta * c (+ bias)) for each of `batch` row-major matrices. op transposes if
/// transpose_a or transpose_b. op(a): [m, k], op(b): [k, n], c: [m, n]; leading dimensions and batch strides in
/// elements.
struct Matmul {
  DType dtype = kFloat32;       ///< The floating-point type of a and b, and of c and bias unless:
  bool float32_output = false;  ///< True: c and bias are float32; dtype is then a 16-bit type. The sum is not rounded.
  std::int64_t m = 0, n = 0, k = 0;
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  const void* bias = nullptr;  ///< [n], added to every row; requires beta == 0. Null: no bias.
  void* row_sums = nullptr;    ///< [m]: gets the sum of each row of op(a). Null, or as has_row_sums() allows.
  std::int64_t lda = 0, ldb = 0, ldc = 0;
  bool transpose_a = false, transpose_b = false;
  double alpha = 1, beta = 0;
  Activation activation = Activation::none;  ///< If not none, beta must be 0. On CUDA relu may turn NaN into 0.
  std::int64_t batch = 1;
  std::int64_t stride_a = 0, stride_b = 0, stride_c = 0;

  DType output() const noexcept { return float32_output ? kFloat32 : dtype; }  ///< The type of c, bias and sums.
};

using CommunicatorHandle = void*;

class Transport;

/// The processes of a communicator. Ranks count the devices of all processes, process by process.
struct Peers {
  std::shared_ptr<Transport> transport;    ///< Null for a single process.
  int channels = 0;                        ///< The first of the transport's channels that this communicator uses.
  std::size_t process = 0;                 ///< The index of this process.
  std::vector<std::size_t> devices = {0};  ///< The number of devices of each process.

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

/// One rank's part of a collective, on a stream of the rank's device. Pointers that the operation does not use are
/// null.
struct CollectivePart {
  StreamHandle stream;
  const void* send = nullptr;
  void* receive = nullptr;
};

/// One operation of all ranks of a communicator, with checked arguments. `parts` has only this process's ranks; counts,
/// roots and transfers refer to all ranks. With NCCL it is one group, with one call for each part or, if `counts`
/// differ, one reduce or broadcast for each root and part.
struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::barrier;
  const char* name = "";                       ///< A string literal.
  std::span<const CollectivePart> parts = {};  ///< By rank, from first_rank on.
  std::size_t first_rank = 0;
  std::size_t ranks = 0;  ///< The ranks of all processes.
  DType dtype = kFloat32;
  ReduceOp op = ReduceOp::sum;
  std::size_t count = 0;                     ///< Elements: the sum over `counts` or `transfers`, if there are any.
  std::span<const std::size_t> counts = {};  ///< By rank: for reduce-scatter and all-gather.
  int root = 0;                              ///< For reduce and broadcast.
  std::span<const Transfer> transfers = {};  ///< For send-receive.
};

class Graphs;

class Backend {
 public:
  virtual ~Backend() = default;

  virtual DeviceType type() const noexcept = 0;
  virtual int device_count() const noexcept = 0;
  virtual DeviceProperties properties(int device) const = 0;
  /// Returns true if the device has failed for good: work enqueued there can no longer succeed.
  virtual bool is_lost(int /*device*/) noexcept { return false; }
  /// The object that captures and replays work; null if the backend cannot do this.
  virtual Graphs* graphs() noexcept { return nullptr; }
  /// Returns true if kernels launch grids on KernelContext::native_stream, false if they compute synchronously.
  virtual bool launches_grids() const noexcept { return false; }
  /// Returns true if convolutions of this dtype are fastest in the channels-last layout.
  virtual bool prefers_channels_last(DType /*dtype*/) const noexcept { return true; }

  // Memory. deallocate() waits for the device's work, as cudaFree does.
  /// Returns null if the device has no room. Aligned to at least 256 bytes. Throws BackendError for other failures.
  virtual void* allocate(int device, std::size_t bytes) = 0;
  virtual void deallocate(int device, void* memory, std::size_t bytes) noexcept = 0;

  // Page-locked host memory, which devices read directly. deallocate_pinned() does not wait: call it only when all
  // copies from the memory have ended.
  /// Returns null if the backend has no such memory, or none left. Aligned to at least 64 bytes. Throws BackendError
  /// for other failures.
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
  /// Must not block: called under a lock that other threads spin on.
  virtual bool query_event(EventHandle event) = 0;
  virtual void synchronize_event(EventHandle event) = 0;
  /// Ends work that hangs after a failure. A polling thread that holds no lock calls this between two query_event().
  /// (NCCL reports a failed collective only when asked; until then, events behind the collective never complete.)
  virtual void poll_failures() {}

  // Work.
  virtual void launch(StreamHandle stream, const LaunchInfo& info, KernelRef kernel) = 0;
  virtual void copy(StreamHandle stream, const Copy& copy) = 0;
  virtual void matmul(StreamHandle stream, const Matmul& matmul) = 0;
  /// Returns true if matmul() can compute this product, which has row_sums, alpha 1, beta 0 and no bias: the gradients
  /// of a layer's weight and bias in one operation. Depends on the pointers' alignment, but reads no data.
  virtual bool has_row_sums(StreamHandle /*stream*/, const Matmul& /*matmul*/) { return false; }
  /// Returns the bytes of workspace that the device needs to run the operation fused, or nullopt if it does not support
  /// the operation. Depends on the description alone: reads no data, and data pointers may be null.
  virtual std::optional<std::size_t> workspace_size(int /*device*/, const FusedOp& /*op*/) { return std::nullopt; }
  /// Runs an operation that workspace_size() accepted. `workspace`: device memory of the size that workspace_size()
  /// returned.
  virtual void fused(StreamHandle /*stream*/, const FusedOp& /*op*/, void* /*workspace*/) {}

  // Collectives. One thread at a time uses a communicator; any thread may abort it.
  virtual CommunicatorHandle create_communicator(std::span<const int> devices, const Peers& peers,
                                                 const CommunicatorOptions& options) = 0;
  /// Enqueued operations still complete.
  virtual void destroy_communicator(CommunicatorHandle communicator) noexcept = 0;
  /// Fails pending operations with CollectiveError. No collective may follow.
  virtual void abort_communicator(CommunicatorHandle communicator) noexcept = 0;
  virtual void collective(CommunicatorHandle communicator, const CollectiveCall& call) = 0;
  /// How often the communicator's operations have failed so far. Captured work cannot be replayed after a
  /// failure.
  /// A graph whose work uses the communicator is launched on `origin`: called once before the launch, and once after
  /// it. All of the work must end within the communicator's time limit.
  virtual void watch_launch(CommunicatorHandle /*communicator*/, StreamHandle /*origin*/, bool /*is_enqueued*/) {}
  virtual std::uint64_t communicator_failures(CommunicatorHandle /*communicator*/) const noexcept { return 0; }
};

}  // namespace lockstep
