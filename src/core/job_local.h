// Thread-local state that belongs to what a thread is doing, not to the thread: a job that a waiting thread runs
// meanwhile begins without it.
#pragma once

#include <array>
#include <cstddef>
#include <type_traits>

namespace lockstep {

/// Declares a thread_local variable to be such state. At namespace scope, beside the variable:
///
///     thread_local bool recording = true;
///     const JobLocal registered([]() -> void* { return &recording; }, true);
class JobLocal {
 public:
  using Find = void* (*)();  ///< The variable of the calling thread.

  template <class T>
  JobLocal(Find find, const T& initial) {
    static_assert(std::is_trivially_copyable_v<T>);
    add(find, &initial, sizeof initial);
  }

  static constexpr std::size_t kMostBytes = 512;  ///< Of all variables together.

  /// While it lives, all such variables of this thread have their initial values; afterwards what they had. Needs no
  /// memory of the heap: a job may begin where there is none.
  class Fresh {
   public:
    Fresh();
    ~Fresh();
    Fresh(const Fresh&) = delete;
    Fresh& operator=(const Fresh&) = delete;

   private:
    std::array<std::byte, kMostBytes> outer_;
  };

 private:
  static void add(Find find, const void* initial, std::size_t bytes);
};

}  // namespace lockstep
