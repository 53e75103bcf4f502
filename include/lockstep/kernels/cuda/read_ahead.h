// Loads several elements before it uses the first one, so that a thread waits for memory less often. A compiler does
// this only where nothing but arithmetic lies between the loads.
#pragma once

#include <cstdint>
#include <type_traits>

#include <lockstep/core/dtype.h>

namespace lockstep::gpu {

/// Calls use(read(i)) for i = first, first + step, ... below end, in this order: read() for four of them, if so many
/// are left, and then use() for these.
template <class Read, class Use>
LOCKSTEP_HD void read_ahead(std::int64_t first, std::int64_t end, std::int64_t step, const Read& read, const Use& use) {
  const auto take = [&]<int kCount>(std::integral_constant<int, kCount>) {
    std::invoke_result_t<const Read&, std::int64_t> elements[kCount];
    for (int n = 0; n < kCount; ++n) elements[n] = read(first + n * step);
    for (const auto& element : elements) use(element);
    first += kCount * step;
  };
  while (first + 3 * step < end) take(std::integral_constant<int, 4>());
  if (first + step < end) take(std::integral_constant<int, 2>());
  if (first < end) take(std::integral_constant<int, 1>());
}

}  // namespace lockstep::gpu
