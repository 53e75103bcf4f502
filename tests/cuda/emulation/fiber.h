// A function with a stack of its own, which can be left and entered again. For x86-64.
#pragma once

#include <cstddef>

namespace lockstep::emulation {

/// For one thread at a time. The sanitizers are told of every switch.
class Fiber {
 public:
  static constexpr std::size_t kStackBytes = std::size_t(128) << 10;

  /// The first time that it is gone on with calls main(), which must not return or throw.
  explicit Fiber(void (*main)());
  /// Whatever the fiber was in the middle of is forgotten.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Goes on with the fiber, until one suspends. Not from a fiber.
  void resume();
  /// Goes on with another fiber. From this one.
  void give_way_to(Fiber& other);
  /// Goes back to where resume() was called. From this fiber.
  void suspend();

 private:
  static void enter(Fiber* self);

  void (*main_)();
  std::byte* memory_ = nullptr;    // a page that must not be touched, then the stack
  void* stack_pointer_ = nullptr;  // while suspended
  // The sanitizers'.
  void* fake_stack_ = nullptr;
  void* thread_ = nullptr;
};

/// Memory accesses within this scope are the emulator's, and no business of ThreadSanitizer's.
class Unobserved {
 public:
  Unobserved();
  ~Unobserved();
  Unobserved(const Unobserved&) = delete;
  Unobserved& operator=(const Unobserved&) = delete;
};

/// Within an Unobserved scope: accesses are a kernel's again.
class Observed {
 public:
  Observed();
  ~Observed();
  Observed(const Observed&) = delete;
  Observed& operator=(const Observed&) = delete;
};

/// For ThreadSanitizer: what came before published(x) comes before what follows observed(x).
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
