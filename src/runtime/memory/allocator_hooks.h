// Hooks of the simulation in the caching allocators of its devices: faults, poison, and memory events for the race
// checker. If a Backend also derives from AllocatorHooks, its devices' allocators call the hooks; backends of real
// devices do not. Called from any thread.
#pragma once

#include <cstddef>

#include "runtime/backend.h"

namespace lockstep {

class AllocatorHooks {
 public:
  /// Called before a request is served. If it returns false, the request fails as if the device had no room.
  virtual bool admits(int device, std::size_t bytes) = 0;
  /// Called when the values of a block's bytes become indeterminate: when it is allocated and when it is freed. Takes
  /// effect in stream order. An error stays with the stream.
  virtual void discard(StreamHandle stream, void* memory, std::size_t bytes) noexcept = 0;
  /// Replaces Backend::query_event. Returns true if all uses of these bytes before the event have ended. This does not
  /// order any other work before the event, because nobody has waited for the event.
  virtual bool query_use(EventHandle event, void* memory, std::size_t bytes) = 0;
  /// Called before the host writes page-locked memory. Throws RaceError if a copy may still read those bytes.
  virtual void host_writes(const void* memory, std::size_t bytes) = 0;

 protected:
  ~AllocatorHooks() = default;
};

}  // namespace lockstep
