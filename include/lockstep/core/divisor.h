// Division by a number that is known before the kernel starts, with a multiplication and a shift, since GPUs divide
// slowly. Ordinary C++, which runs on the host too.
#pragma once

#include <bit>
#include <cstdint>

#include <lockstep/core/float16.h>

namespace lockstep::gpu {

/// Division by a non-negative number that is known before the kernel starts. Multiplies if the dividend is below 2^31,
/// else divides. Granlund and Montgomery, "Division by invariant integers using multiplication", PLDI 1994.
class Divisor {
 public:
  Divisor() = default;  ///< Division by 1.
  explicit Divisor(std::int64_t divisor) noexcept : divisor_(divisor) {
    // For these divisors the default multiplier 0 and shift 31 suffice: they give the quotient 0 for every dividend
    // below 2^31, as for a divisor of at least 2^31. Divisor 0 is the size of an empty dimension, which has no indices
    // to divide.
    if (divisor == 0 || divisor >= kFast) return;
    const auto d = std::uint64_t(divisor);
    shift_ = std::uint32_t(std::bit_width(d - 1));
    multiplier_ = std::uint32_t((((std::uint64_t(1) << shift_) - d) << 32) / d + 1);
  }

  /// n / divisor(), rounded down. n is not negative.
  LOCKSTEP_HD std::int64_t quotient(std::int64_t n) const {
    if (n >= kFast) return n / divisor_;
    const auto low = std::uint32_t(n);
    return std::int64_t((std::uint32_t(std::uint64_t(multiplier_) * low >> 32) + low) >> shift_);
  }
  LOCKSTEP_HD std::int64_t divisor() const { return divisor_; }  ///< The number given to the constructor.

 private:
  static constexpr std::int64_t kFast = std::int64_t(1) << 31;

  std::int64_t divisor_ = 1;
  std::uint32_t multiplier_ = 0;
  std::uint32_t shift_ = 31;
};

}  // namespace lockstep::gpu
