// A function with its own stack, which can be suspended and resumed. For x86-64.
#pragma once

#include <cstddef>

namespace lockstep::emulation {

/// Used by one thread at a time. Reports every switch to the sanitizers.
class Fiber {
 public:
  static constexpr std::size_t kStackBytes = std::size_t(128) << 10;

  /// The first resume() calls main(), which must not return or throw.
  explicit Fiber(void (*main)());
  /// Abandons the fiber's work, wherever it was suspended.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Continues the fiber, until a fiber suspends. Not to be called from a fiber.
  void resume();
  /// Continues another fiber. To be called from this one.
  void give_way_to(Fiber& other);
  /// Returns to the caller of resume(). To be called from this fiber.
  void suspend();

 private:
  static void enter(Fiber* self);

  void (*main_)();
  std::byte* memory_ = nullptr;    // a guard page, then the stack
  void* stack_pointer_ = nullptr;  // while suspended
  // For the sanitizers.
  void* fake_stack_ = nullptr;
  void* thread_ = nullptr;
};

/// Memory accesses in this scope are the emulator's; ThreadSanitizer ignores them.
class Unobserved {
 public:
  Unobserved();
  ~Unobserved();
  Unobserved(const Unobserved&) = delete;
  Unobserved& operator=(const Unobserved&) = delete;
};

/// Inside an Unobserved scope: accesses are a kernel's again.
class Observed {
 public:
  Observed();
  ~Observed();
  Observed(const Observed&) = delete;
  Observed& operator=(const Observed&) = delete;
};

/// For ThreadSanitizer: everything before published(x) happens before everything after observed(x).
void published(void* at);
void observed(void* at);

#ifndef __SANITIZE_THREAD__
inline Unobserved::Unobserved() {}
inline Unobserved::~Unobserved() {}
inline Observed::Observed() {}
inline Observed::~Observed() {}
inline void published(void*) {}
inline void observed(void*) {}
#endif

}  // namespace lockstep::emulation
