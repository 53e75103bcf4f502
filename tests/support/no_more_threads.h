// A process that may start no more threads, as under a limit of the system. For the GNU C library alone.
#pragma once

#include <pthread.h>

#include <cstddef>

namespace lockstep::testing {

// While it lives, no thread can be started: there is no room for a stack like this.
class NoMoreThreads {
 public:
  NoMoreThreads() {
    ::pthread_getattr_default_np(&outer_);
    pthread_attr_t attributes;
    ::pthread_getattr_default_np(&attributes);
    ::pthread_attr_setstacksize(&attributes, std::size_t(1) << 47);
    ::pthread_setattr_default_np(&attributes);
    ::pthread_attr_destroy(&attributes);
  }
  ~NoMoreThreads() {
    ::pthread_setattr_default_np(&outer_);
    ::pthread_attr_destroy(&outer_);
  }
  NoMoreThreads(const NoMoreThreads&) = delete;
  NoMoreThreads& operator=(const NoMoreThreads&) = delete;

 private:
  pthread_attr_t outer_;
};

}  // namespace lockstep::testing
