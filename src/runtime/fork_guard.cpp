#include "runtime/fork_guard.h"

#include <lockstep/core/error.h>

#include <pthread.h>

#include <cerrno>

namespace lockstep {
namespace {

std::atomic<bool> used_gpus = false;

}  // namespace

void watch_forks() {
  static const int registered = ::pthread_atfork(nullptr, nullptr, [] {
    detail::forked = true;
    detail::forked_from_user_of_gpus = used_gpus.load();
  });
  static_cast<void>(registered);  // fails only if there is no memory; then a forked process may hang
}

void watch_forks_of_gpus() {
  used_gpus = true;
  watch_forks();
}

void detail::throw_forked(const char* op) {
  throw BackendError(op, ENOTRECOVERABLE, "a forked process",
                     "its parent process had used GPUs before the fork, and the parent's threads do not exist here. "
                     "What to do: fork before GPUs are used, or exec another program in the child");
}

}  // namespace lockstep
