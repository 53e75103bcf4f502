// Counts the failures of asynchronous work that were reported to the host. Until then, a stream skips the work that was
// enqueued behind the failed work. So what such work should have written is in doubt once the count has grown.
#pragma once

#include <atomic>
#include <cstdint>

namespace lockstep {

inline std::atomic<std::uint64_t> reported_failures = 0;

}  // namespace lockstep
