// Ranges of a unit's elements (parallel/parameter_units.h), by the ranks whose parts they lie in.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tensor/tensor_impl.h"

namespace lockstep {

/// Calls f(rank, within, at, size) for each range of the elements [begin, begin + count) that lies in one rank's part
/// of `part` elements: `within` is its first element counted from the part's first, `at` counted from `begin`.
template <class F>
void for_parts(std::int64_t part, std::int64_t begin, std::int64_t count, const F& f) {
  for (std::int64_t at = begin, size = 0; at < begin + count; at += size) {
    const std::int64_t within = at % part;
    size = std::min(begin + count - at, part - within);
    f(std::size_t(at / part), within, at - begin, size);
  }
}

/// Elements of a flat tensor.
inline Tensor elements(const Tensor& flat, std::int64_t begin, std::int64_t count) {
  return make_view(flat, {count}, {1}, flat.impl()->offset + begin);
}

}  // namespace lockstep
