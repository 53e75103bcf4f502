#include "cpu/library_use.h"

#include <atomic>
#include <chrono>
#include <thread>

namespace lockstep::host {
namespace {

std::atomic<int> uses = 0;  // the number of threads that hold a LibraryUse
std::atomic<bool> is_over = false;
thread_local int depth = 0;  // the number of LibraryUse objects on this thread, which may be nested
thread_local bool ends_process = false;

// exit() destroys this object after the static objects of the program, which were made later, and before the libraries.
// So its destructor is the place to wait for calls of the libraries.
struct End {
  ~End() {
    ends_process = true;
    is_over = true;
    const int own = depth > 0 ? 1 : 0;  // 1 if a kernel on this thread called exit()
    while (uses != own) std::this_thread::yield();
  }
} at_end;

}  // namespace

LibraryUse::LibraryUse() noexcept {
  if (depth++ > 0 || ends_process) return;
  ++uses;
  if (!is_over) return;
  --uses;
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

LibraryUse::~LibraryUse() {
  if (--depth == 0 && !ends_process) --uses;
}

}  // namespace lockstep::host
