// Memory that a storage has only while work uses it, such as a parameter that is divided between devices
// (parallel/parameter_units.h). An operation uses it as it uses any memory:
//
//   1. It takes addresses: TensorImpl::data() calls bring().
//   2. It declares which memory its work uses on which stream: use_on() (kernels/launch.h).
//   3. It enqueues its work, and then calls has_enqueued(), also if it fails: OperationEnd.
//
// From 1 to 3 the memory stays at its address, even if the thread brings other memory in between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include <lockstep/core/dtype.h>

namespace lockstep {

struct Storage;
struct StreamHandle;
class Tensor;
struct TensorImpl;

class TransientMemory {
 public:
  virtual ~TransientMemory() = default;

  /// The address of the first byte. If the bytes are not on the device, enqueues their copies; the host does not wait.
  /// Throws BackendError and OutOfMemory.
  virtual std::byte* bring() = 0;
  /// Work that is enqueued next on this stream starts after the bytes have arrived. Throws InvalidArgument if the
  /// memory has gone since this thread brought it.
  virtual void use_on(const StreamHandle& stream) = 0;
  /// Sends values that were changed in place to all devices.
  virtual void publish() = 0;
  /// The part of `tensor`, flat, that the device always has, which an optimizer updates. An undefined Tensor if the
  /// whole memory is on the device at present, with values that may differ from the part's.
  virtual Tensor own_part(const TensorImpl& tensor) const = 0;
  /// A tensor in this memory, in another dtype and also without memory of its own: it has the tensor's present values
  /// and version count at any time, and must not be changed. Undefined if there is no such form; there is none of a
  /// tensor that is not contiguous.
  virtual Tensor converted(const Tensor& tensor, DType dtype) const;
  /// True if the memory stays where bring() has once put it.
  virtual bool stays() const noexcept;
  /// Changes in place so far of the storage, whose memory this is.
  virtual std::uint64_t version(const Storage& storage) const;
};

/// An owner of several transient memories, which it tells apart by their numbers.
class TransientOwner {
 public:
  virtual ~TransientOwner() = default;
  /// Called by the thread that has brought memory `number`, once the thread's work has been enqueued.
  virtual void let_go(std::size_t number) noexcept = 0;
};

/// Calls owner->let_go(number) at this thread's next has_enqueued(), or when the thread ends.
void keep_until_enqueued(std::shared_ptr<TransientOwner> owner, std::size_t number);

namespace detail {
extern thread_local constinit bool has_brought_memory;
void let_brought_memory_go() noexcept;
}  // namespace detail

/// Gives a tensor, and its views, memory that stays, with the same values. The tensor must be contiguous and cover its
/// storage. Does nothing if its memory is not transient. Throws OutOfMemory.
void make_permanent(const Tensor& tensor);

/// Call this after the work of an operation has been enqueued: lets go of the memory that the thread brought.
inline void has_enqueued() noexcept {
  if (detail::has_brought_memory) [[unlikely]]
    detail::let_brought_memory_go();
}

/// Calls has_enqueued() when an operation ends, also if it fails.
class OperationEnd {
 public:
  OperationEnd() noexcept = default;
  ~OperationEnd() { has_enqueued(); }
  OperationEnd(const OperationEnd&) = delete;
  OperationEnd& operator=(const OperationEnd&) = delete;
};

/// While it lives, has_enqueued() does nothing on this thread: for copies that bring() enqueues in an operation.
class WithoutEnqueuing {
 public:
  WithoutEnqueuing() noexcept : outer_(std::exchange(detail::has_brought_memory, false)) {}
  ~WithoutEnqueuing() { detail::has_brought_memory = outer_; }
  WithoutEnqueuing(const WithoutEnqueuing&) = delete;
  WithoutEnqueuing& operator=(const WithoutEnqueuing&) = delete;

 private:
  const bool outer_;
};

}  // namespace lockstep
