// Computes the offsets of all operands from the index of an element, in a way that suits a GPU: each division is a
// multiplication and a shift. This is ordinary C++ that also runs on the host.
#pragma once

#include <array>
#include <cstdint>

#include <lockstep/core/divisor.h>
#include <lockstep/kernels/geometry.h>

namespace lockstep::gpu {

/// Computes the offsets of N operands, in elements, at an index into their common shape.
template <int N>
class Walk {
 public:
  explicit Walk(const Geometry<N>& geometry) noexcept : rank_(geometry.sizes.rank()) {
    for (int d = 0; d < rank_; ++d) {
      sizes_[d] = Divisor(geometry.sizes[d]);
      for (int n = 0; n < N; ++n) strides_[d][n] = geometry.strides[std::size_t(n)][d];
    }
  }

  LOCKSTEP_HD std::array<std::int64_t, N> operator()(std::int64_t index) const {
    std::array<std::int64_t, N> at = {};
    for (int d = rank_ - 1; d >= 0; --d) {
      const std::int64_t rest = d > 0 ? sizes_[d].quotient(index) : 0;
      const std::int64_t place = index - rest * sizes_[d].divisor();
      for (int n = 0; n < N; ++n) at[std::size_t(n)] += place * strides_[d][n];
      index = rest;
    }
    return at;
  }

 private:
  int rank_;
  Divisor sizes_[Shape::kMaxRank];
  std::int64_t strides_[Shape::kMaxRank][N] = {};
};

}  // namespace lockstep::gpu
