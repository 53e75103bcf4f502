// Loops over all cores (oneTBB), and matrix products on the host: what the CPU and simulated backends share.
#pragma once

#include <cstdint>

#include "runtime/backend.h"

namespace lockstep::host {

/// Calls body(begin, end) over [0, count) in pieces of about `grain`; at once and in one piece when the work is
/// small or `context` is serial. The body must not throw.
void parallel_for_pieces(std::int64_t count, std::int64_t grain, void (*call)(const void*, std::int64_t, std::int64_t),
                         const void* body);

template <class Body>
void parallel_for(const KernelContext& context, std::int64_t count, std::int64_t grain, const Body& body) {
  if (!context.parallel || count <= grain) {
    if (count > 0) body(std::int64_t(0), count);
    return;
  }
  parallel_for_pieces(
      count, grain,
      [](const void* f, std::int64_t begin, std::int64_t end) { (*static_cast<const Body*>(f))(begin, end); }, &body);
}

/// The product, computed on the host before it returns.
void matmul(const KernelContext& context, const Matmul& matmul);

}  // namespace lockstep::host
