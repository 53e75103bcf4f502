// DeviceCopies: prefetches batches to one device, on a stream of its own, so that copies overlap the computation.
// Pinned tensors are copied directly; the CUDA backend copies pageable tensors through its pinned staging buffers. One
// thread at a time.
#pragma once

#include <memory>
#include <optional>

#include <lockstep/core/export.h>
#include <lockstep/data/batch_tensors.h>
#include <lockstep/runtime/device.h>
#include <lockstep/runtime/stream.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep::data {

/// Copies each batch to a device while the device computes on the previous batch.
class LOCKSTEP_API DeviceCopies {
 public:
  explicit DeviceCopies(Device device);
  ~DeviceCopies();
  DeviceCopies(const DeviceCopies&) = delete;
  DeviceCopies& operator=(const DeviceCopies&) = delete;

  /// Enqueues copies of the batch's tensors to the device, and replaces the tensors by the copies; tensors that are
  /// already on the device stay. Returns an event after the copies, or nullopt if the device is the CPU. Call receive()
  /// before the batch is used.
  template <class Batch>
  std::optional<cuda::Event> send(Batch& batch) {
    detail::for_each_tensor_of(batch, [this](Tensor& tensor) { tensor = copy(tensor); });
    return mark();
  }
  /// Makes the device's current stream of this thread wait for the copies.
  template <class Batch>
  void receive(Batch& batch, const std::optional<cuda::Event>& sent) const {
    if (!sent) return;
    const Stream stream = current_stream(device_);
    stream.wait(*sent);
    detail::for_each_tensor_of(batch, [&](Tensor& tensor) { tensor.record_stream(stream); });
  }

 private:
  struct Pooled;

  Tensor copy(const Tensor& tensor);
  std::optional<cuda::Event> mark();
  /// Returns the stream of the copies: the same for all batches, so that the allocator can reuse the memory of one
  /// batch for the next.
  Stream stream();

  Device device_;
  std::unique_ptr<Pooled> pooled_;
};

}  // namespace lockstep::data
