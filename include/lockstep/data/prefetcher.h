// Prefetcher: makes the batches of an epoch ahead of the loop that takes them, in order, on several threads. Only
// the thread of that loop uses it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>

#include <lockstep/core/export.h>

namespace lockstep::data {

struct PrefetchOptions {
  int num_workers = 1;                     ///< Maximum number of batches that are made at once.
  std::int64_t first = 0;                  ///< Batches first, first + 1, ... last - 1 are made.
  std::int64_t last = 0;                   ///< See first.
  std::int64_t window = 1;                 ///< Maximum number of batches being made, or made and not taken.
  std::chrono::milliseconds timeout = {};  ///< Longest wait of wait(); 0: forever.
};

/// Makes batches ahead of the loop, and returns them in order.
class LOCKSTEP_API Prefetcher {
 public:
  /// Makes a batch, on any thread, and stores it in slot batch % window. May throw. Should return early when a stop is
  /// requested. The function must own everything it uses: a worker that hangs keeps it.
  using Make = std::function<void(std::int64_t batch, const std::stop_token& stop)>;

  Prefetcher(const PrefetchOptions& options, Make make);
  /// Requests a stop, and waits until no task runs. After a TimeoutError it does not wait: the remaining tasks are
  /// asked to stop, and end on their own.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// Waits until the next batch is made; if its Make threw, throws that error. Call taken() next. If a worker is late,
  /// throws TimeoutError naming the worker; no further calls are allowed then.
  void wait();
  /// True if wait() would return at once.
  bool ready() const;
  /// True if wait() has thrown TimeoutError because a worker was late.
  bool hangs() const noexcept;
  /// Frees the slot of the batch that was waited for, so that another batch can be made.
  void taken();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace lockstep::data
