#include "core/ranked_mutex.h"

#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace lockstep {
namespace {

constexpr std::array kRankNames{"loader_threads",
                                "task_queue",
                                "prefetcher",
                                "backward",
                                "gradient_buckets",
                                "bucket_launch",
                                "replica_barrier",
                                "replica_group",
                                "accumulator",
                                "view",
                                "gradient_edge",
                                "other_memory",
                                "autocast",
                                "hook",
                                "deferred_memory",
                                "transient_memory",
                                "bucket_buffers",
                                "ordered_commands",
                                "replay_values",
                                "generator",
                                "world",
                                "registry",
                                "device_streams",
                                "device_threads",
                                "allocator",
                                "pinned_blocks",
                                "graphs",
                                "cuda_stream",
                                "cuda_fused",
                                "cuda_issue",
                                "cuda_questions",
                                "cuda_communicators",
                                "nccl_communicator",
                                "cuda_device",
                                "cuda_memory",
                                "pinned_memory",
                                "sim_backend",
                                "sim_communicator",
                                "sim_collective",
                                "sim_staged_bytes",
                                "sim_stream",
                                "sim_async_error",
                                "transport",
                                "trace",
                                "trace_events",
                                "host_library",
                                "thread_limit"};
static_assert(kRankNames.size() == std::size_t(LockRank::thread_limit) + 1);

thread_local constinit std::uint64_t held = 0;  // a bit for each rank

std::uint64_t bit_of(LockRank rank) noexcept { return std::uint64_t(1) << unsigned(rank); }

LockRank last_held() noexcept { return LockRank(std::bit_width(held) - 1); }

}  // namespace

const char* name_of(LockRank rank) noexcept { return kRankNames[std::size_t(rank)]; }

void detail::about_to_lock(LockRank rank) noexcept {
  if (held >= bit_of(rank)) {
    const char* const taken = name_of(rank);
    const char* const other = name_of(last_held());
    if (rank == last_held())
      std::fprintf(stderr,
                   "lockstep: internal error: lock '%s' was taken while another '%s' is held, but core/lock_rank.h "
                   "allows one lock of a rank at a time (possible deadlock)\n",
                   taken, other);
    else
      std::fprintf(stderr,
                   "lockstep: internal error: lock '%s' was taken while '%s' is held, but core/lock_rank.h orders '%s' "
                   "before '%s' (possible deadlock)\n",
                   taken, other, taken, other);
    std::abort();
  }
  held |= bit_of(rank);
}

void detail::has_locked(LockRank rank) noexcept { held |= bit_of(rank); }

void detail::has_unlocked(LockRank rank) noexcept { held &= ~bit_of(rank); }

void detail::abort_if_any_is_held(const char* function) noexcept {
  if (held == 0) return;
  std::fprintf(stderr, "lockstep: internal error: %s was called while lock '%s' is held (possible deadlock)\n",
               function, name_of(last_held()));
  std::abort();
}

}  // namespace lockstep
