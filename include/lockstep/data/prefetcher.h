// Prefetcher: makes the batches of an epoch ahead of the loop that takes them, in order, on several threads.
// It belongs to the thread of that loop.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>

#include <lockstep/core/export.h>

namespace lockstep::data {

struct PrefetchOptions {
  int num_workers = 1;                     ///< At most so many batches are made at once.
  std::int64_t first = 0;                  ///< Batches first, first + 1, ... last - 1 are made.
  std::int64_t last = 0;                   ///< See first.
  std::int64_t window = 1;                 ///< How many may be under way, or made and not taken.
  std::chrono::milliseconds timeout = {};  ///< For how long wait() waits; 0: for ever.
};

/// Makes batches ahead of the loop that takes them, and hands them out in order.
class LOCKSTEP_API Prefetcher {
 public:
  /// Makes a batch and keeps it, on any thread, in a place for batch modulo window. May throw. Should return early
  /// when a stop is requested. What it holds must own what it needs: a worker that hangs keeps it.
  using Make = std::function<void(std::int64_t batch, const std::stop_token& stop)>;

  Prefetcher(const PrefetchOptions& options, Make make);
  /// Requests a stop, and waits until nothing runs. After a TimeoutError it waits for nobody: what still runs is told
  /// to stop, and goes when it ends.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// Waits until the next batch is made; throws what its make threw. To be followed by taken(). Throws TimeoutError
  /// naming the worker that did not make it in time; then nothing may follow.
  void wait();
  /// Whether wait() would not wait.
  bool ready() const;
  /// Whether wait() has thrown a TimeoutError of its own.
  bool hangs() const noexcept;
  /// The place of the batch that was waited for is free: another may be made.
  void taken();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace lockstep::data
