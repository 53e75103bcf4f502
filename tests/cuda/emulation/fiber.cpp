#include "cuda/emulation/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <new>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#endif

// lockstep_switch_stack saves the callee-saved registers (System V ABI, AMD64, 3.2.1) on this stack and continues on
// the other. A new stack begins in lockstep_first_frame, which calls the function in r12 with rbx.
extern "C" {
void lockstep_switch_stack(void** save, void* to);
void lockstep_first_frame();
}
asm(R"(
.text
.type lockstep_switch_stack, @function
lockstep_switch_stack:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
.size lockstep_switch_stack, . - lockstep_switch_stack
.type lockstep_first_frame, @function
lockstep_first_frame:
  mov %rbx, %rdi
  call *%r12
  ud2
.size lockstep_first_frame, . - lockstep_first_frame
)");

namespace lockstep::emulation {
namespace {

constexpr std::size_t kGuardBytes = 4096;

template <class T>
std::uintptr_t address(T* of) {
  return reinterpret_cast<std::uintptr_t>(of);
}

// The caller of resume().
struct {
  void* stack_pointer = nullptr;
  bool is_left = false;  // resume() was called, and no fiber has been entered yet
  // For the sanitizers.
  void* fake_stack = nullptr;
  const void* stack = nullptr;
  std::size_t stack_bytes = 0;
  void* thread = nullptr;
} home;

// Called after a switch to a fiber.
[[gnu::no_sanitize_thread]] void arrived_in_fiber([[maybe_unused]] void* fake_stack) {
#ifdef __SANITIZE_ADDRESS__
  const void* from = nullptr;
  std::size_t bytes = 0;
  __sanitizer_finish_switch_fiber(fake_stack, &from, &bytes);
  if (home.is_left) home.stack = from, home.stack_bytes = bytes;
#endif
  home.is_left = false;
}

}  // namespace

Fiber::Fiber(void (*main)()) : main_(main) {
  void* const memory =
      ::mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<std::byte*>(memory);
  ::mprotect(memory_, kGuardBytes, PROT_NONE);
  // The frame that lockstep_switch_stack() pops: r15, r14, r13, r12, rbx, rbp, and the return address. Two words stay
  // free, so that the stack is aligned at the first call.
  const std::uintptr_t frame[] = {0, 0, 0, address(&Fiber::enter), address(this), 0, address(&lockstep_first_frame),
                                  0, 0};
  stack_pointer_ = memory_ + kGuardBytes + kStackBytes - sizeof frame;
  std::memcpy(stack_pointer_, frame, sizeof frame);
#ifdef __SANITIZE_THREAD__
  thread_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#ifdef __SANITIZE_THREAD__
  __tsan_destroy_fiber(thread_);
#endif
#ifdef __SANITIZE_ADDRESS__
  ASAN_UNPOISON_MEMORY_REGION(memory_ + kGuardBytes, kStackBytes);
#endif
  ::munmap(memory_, kGuardBytes + kStackBytes);
}

[[gnu::no_sanitize_thread]] void Fiber::enter(Fiber* self) {
  arrived_in_fiber(nullptr);
  self->main_();
}

[[gnu::no_sanitize_thread]] void Fiber::resume() {
  home.is_left = true;
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(&home.fake_stack, memory_ + kGuardBytes, kStackBytes);
#endif
#ifdef __SANITIZE_THREAD__
  home.thread = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(thread_, __tsan_switch_to_fiber_no_sync);
#endif
  lockstep_switch_stack(&home.stack_pointer, stack_pointer_);
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(home.fake_stack, nullptr, nullptr);
#endif
}

// Not instrumented: ThreadSanitizer's current thread changes here.
[[gnu::no_sanitize_thread]] void Fiber::give_way_to(Fiber& other) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(&fake_stack_, other.memory_ + kGuardBytes, kStackBytes);
#endif
#ifdef __SANITIZE_THREAD__
  __tsan_switch_to_fiber(other.thread_, __tsan_switch_to_fiber_no_sync);
#endif
  lockstep_switch_stack(&stack_pointer_, other.stack_pointer_);
  arrived_in_fiber(fake_stack_);
}

[[gnu::no_sanitize_thread]] void Fiber::suspend() {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(&fake_stack_, home.stack, home.stack_bytes);
#endif
#ifdef __SANITIZE_THREAD__
  __tsan_switch_to_fiber(home.thread, __tsan_switch_to_fiber_no_sync);
#endif
  lockstep_switch_stack(&stack_pointer_, home.stack_pointer);
  arrived_in_fiber(fake_stack_);
}

#ifdef __SANITIZE_THREAD__
Unobserved::Unobserved() {
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}
Unobserved::~Unobserved() {
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}
Observed::Observed() {
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}
Observed::~Observed() {
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}
void published(void* at) { __tsan_release(at); }
void observed(void* at) { __tsan_acquire(at); }
#endif

}  // namespace lockstep::emulation
