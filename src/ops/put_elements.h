// Writes elements at indices along the rows of map_rows.
#pragma once

#include <cstdint>

#include "kernels/rows/rows.h"

namespace lockstep {

/// out[index[i]] = source[i], for indices in range; if indices repeat, the last one wins. On a GPU, which has the order
/// of the indices (order_on_gpu()), only the thread of the last of equal indices writes.
template <class T>
struct PutElements {
  static constexpr int kIndependentOperand = 1;
  template <class Team>
  LOCKSTEP_HD void operator()(const Team& team, RowOf<T> out, RowOf<const std::int64_t> index,
                              RowOf<const std::int64_t> order, RowOf<const T> source) const {
    const auto is_there = [&](std::int64_t place) { return place >= 0 && place < out.length; };
    if constexpr (Team::kSerial) {
      for (std::int64_t i = 0; i < index.length; ++i)
        if (const std::int64_t place = index[i]; is_there(place)) out[place] = source[i];
    } else {
      team.each(index.length, [&](std::int64_t i) {
        const std::int64_t place = index[order[i]];
        if (!is_there(place) || (i + 1 < index.length && index[order[i + 1]] == place)) return;
        out[place] = source[order[i]];
      });
    }
  }
};

}  // namespace lockstep
