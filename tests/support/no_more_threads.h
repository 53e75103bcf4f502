// A process that can start no more threads, as under a system limit. Only for the GNU C library.
#pragma once

#include <pthread.h>

#include <cstddef>

namespace lockstep::testing {

// In its scope, no thread can be started: the default stack size is too large.
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
