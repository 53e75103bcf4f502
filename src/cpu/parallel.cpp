#include "cpu/parallel.h"

#include <lockstep/core/error.h>
#include <lockstep/runtime/threads.h>

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <memory>

#include "core/ranked_mutex.h"
#include "core/text.h"
#include "cpu/library_use.h"
#include "runtime/fork_guard.h"

namespace lockstep {
namespace {

constexpr int kMaxThreads = 1024;
RankedMutex<LockRank::thread_limit> limit_mutex;
std::unique_ptr<tbb::global_control> thread_limit;

}  // namespace

void set_num_threads(int threads) {
  if (threads < 1 || threads > kMaxThreads)
    throw InvalidArgument(text("[set_num_threads] expected 1 to ", kMaxThreads, " threads, got ", threads));
  const std::scoped_lock lock(limit_mutex);
  thread_limit =
      std::make_unique<tbb::global_control>(tbb::global_control::max_allowed_parallelism, std::size_t(threads));
}

int num_threads() { return int(tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism)); }

}  // namespace lockstep

namespace lockstep::host {

// Runs in an isolated oneTBB region: while this thread waits for its pieces, it must not run an unrelated task, such as
// a data loader's worker, which would delay the operation until that task ends.
void parallel_for_pieces(std::int64_t count, std::int64_t grain, void (*call)(const void*, std::int64_t, std::int64_t),
                         const void* body) {
  if (is_forked()) return call(body, 0, count);  // no threads in a forked process
  watch_forks();
  const LibraryUse use;
  tbb::this_task_arena::isolate([&] {
    tbb::parallel_for(
        tbb::blocked_range<std::int64_t>(0, count, std::size_t(grain)),
        [&](const tbb::blocked_range<std::int64_t>& piece) { call(body, piece.begin(), piece.end()); },
        tbb::static_partitioner());
  });
}

}  // namespace lockstep::host
