#include "runtime/host/parallel.h"

#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

namespace lockstep::host {

// Isolated: while this thread waits for its pieces it must not pick up an unrelated task, such as a worker of a
// data loader, and hold up the operation for as long as that takes.
void parallel_for_pieces(std::int64_t count, std::int64_t grain, void (*call)(const void*, std::int64_t, std::int64_t),
                         const void* body) {
  tbb::this_task_arena::isolate([&] {
    tbb::parallel_for(
        tbb::blocked_range<std::int64_t>(0, count, std::size_t(grain)),
        [&](const tbb::blocked_range<std::int64_t>& piece) { call(body, piece.begin(), piece.end()); },
        tbb::static_partitioner());
  });
}

}  // namespace lockstep::host
