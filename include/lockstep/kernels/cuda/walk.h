// Computes the offsets of all operands from the index of an element, in a way that suits a GPU: each division is a
// multiplication and a shift. This is ordinary C++ that also runs on the host.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include <lockstep/kernels/geometry.h>

namespace lockstep::gpu {

/// Division by a non-negative number that is known before the kernel starts. Multiplies if the dividend is below 2^31,
/// else divides. Granlund and Montgomery, "Division by invariant integers using multiplication", PLDI 1994.
class Divisor {
 public:
  Divisor() = default;
  explicit Divisor(std::int64_t divisor) noexcept : divisor_(divisor) {
    // Multiplier 0 and shift 31 give 0 for every dividend below 2^31; an empty dimension has no dividends.
    if (divisor == 0 || divisor >= kFast) return;
    const auto d = std::uint64_t(divisor);
    shift_ = std::uint32_t(std::bit_width(d - 1));
    multiplier_ = std::uint32_t((((std::uint64_t(1) << shift_) - d) << 32) / d + 1);
  }

  LOCKSTEP_HD std::int64_t quotient(std::int64_t n) const {
    if (n >= kFast) return n / divisor_;
    const auto low = std::uint32_t(n);
    return std::int64_t((std::uint32_t(std::uint64_t(multiplier_) * low >> 32) + low) >> shift_);
  }
  LOCKSTEP_HD std::int64_t divisor() const { return divisor_; }

 private:
  static constexpr std::int64_t kFast = std::int64_t(1) << 31;

  std::int64_t divisor_ = 1;
  std::uint32_t multiplier_ = 0;
  std::uint32_t shift_ = 31;
};

/// Offsets of N operands, in elements, at an index into their common shape.
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
