// DeviceCopies: copies batches to one device ahead of their use, on a stream of their own, so that copies run while the
// device computes. What is pinned goes there by itself; what is pageable goes to a card through pinned buffers, which
// the backend of CUDA keeps. It belongs to one thread at a time.
#pragma once

#include <memory>
#include <optional>

#include <lockstep/core/export.h>
#include <lockstep/data/batch_tensors.h>
#include <lockstep/runtime/device.h>
#include <lockstep/runtime/stream.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep::data {

/// Copies batches to a device while the one before is computed with.
class LOCKSTEP_API DeviceCopies {
 public:
  explicit DeviceCopies(Device device);
  ~DeviceCopies();
  DeviceCopies(const DeviceCopies&) = delete;
  DeviceCopies& operator=(const DeviceCopies&) = delete;

  /// Enqueues copies of the batch's tensors to the device; the batch has the copies then. What is there already stays.
  /// The event marks their end; there is none where the device is the CPU. To be received before it is used.
  template <class Batch>
  std::optional<cuda::Event> send(Batch& batch) {
    detail::for_each_tensor_of(batch, [this](Tensor& tensor) { tensor = copy(tensor); });
    return mark();
  }
  /// What the thread's current stream of the device does from now on comes after the copies.
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
  /// The same one for all batches, so that the allocator gives one's memory to another.
  Stream stream();

  Device device_;
  std::unique_ptr<Pooled> pooled_;
};

}  // namespace lockstep::data
