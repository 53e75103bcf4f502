// What a simulation adds to the caching allocators of its devices: faults, poison, and what its checker of races must
// know of memory. A Backend that is AllocatorHooks too has its devices' allocators call them; real devices are not.
// Called from any thread.
#pragma once

#include <cstddef>

#include "runtime/backend.h"

namespace lockstep {

class AllocatorHooks {
 public:
  /// Asked before a request is served: false fails it, as if there were no memory.
  virtual bool admits(int device, std::size_t bytes) = 0;
  /// Told, in stream order, that a block's bytes mean nothing any more (it was handed out or returned). An error is
  /// kept with the stream.
  virtual void discard(StreamHandle stream, void* memory, std::size_t bytes) noexcept = 0;
  /// Asked in place of Backend::query_event: whether the use of these bytes before the event has ended. Says nothing
  /// about other work: nobody has waited for that.
  virtual bool query_use(EventHandle event, void* memory, std::size_t bytes) = 0;
  /// Told before the host writes bytes of page-locked memory. Throws RaceError where a copy may still read them.
  virtual void host_writes(const void* memory, std::size_t bytes) = 0;

 protected:
  ~AllocatorHooks() = default;
};

}  // namespace lockstep
