// Ranges of a unit's elements (parallel/parameter_units.h), by the ranks whose parts they lie in.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

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

/// The parts of a device's ranks (d, devices + d, ...) together, in order: calls f(rank, within, at, in_device, size)
/// for each range as above. `in_device` counts from the first of [begin, begin + count) that lies in the parts of the
/// rank's device, and passes over the others.
template <class F>
void for_parts_by_device(std::int64_t part, std::int64_t begin, std::int64_t count, std::size_t devices, const F& f) {
  std::vector<std::int64_t> ends(devices);
  for_parts(part, begin, count, [&](std::size_t rank, std::int64_t within, std::int64_t at, std::int64_t size) {
    std::int64_t& end = ends[rank % devices];
    f(rank, within, at, end, size);
    end += size;
  });
}

/// Elements of a flat tensor.
inline Tensor elements(const Tensor& flat, std::int64_t begin, std::int64_t count) {
  return make_view(flat, {count}, {1}, flat.impl()->offset + begin);
}

}  // namespace lockstep
