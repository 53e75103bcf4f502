// Counts the failures of asynchronous work that were reported to the host. Until a failure is reported, its stream
// skips the work that was enqueued behind the failed work. So if the count has grown since some work was enqueued, that
// work may have been skipped, and its results may be wrong.
#pragma once

#include <atomic>
#include <cstdint>

namespace lockstep {

inline std::atomic<std::uint64_t> reported_failures = 0;

}  // namespace lockstep
