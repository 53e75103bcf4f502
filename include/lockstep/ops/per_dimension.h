// Options of windows (kernel size, stride, padding, dilation): one number for all spatial dimensions, or one for each.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <optional>

#include <lockstep/core/shape.h>

namespace lockstep {

/// `3` or `{3, 5}`; `{3}` is `3`.
class LOCKSTEP_API PerDimension {
 public:
  PerDimension(std::int64_t all) : all_(all) {}
  PerDimension(int all) : all_(all) {}
  PerDimension(std::initializer_list<std::int64_t> each) : each_(each) {}
  PerDimension(const Shape& each) : each_(each) {}

  /// True if made from `{}`, without a number.
  bool empty() const noexcept { return !all_ && each_.empty(); }

  /// One number for each of `dims` dimensions. Throws ShapeError naming `op` and `what` for another count of numbers,
  /// and InvalidArgument for a number below `least`.
  Shape over(const char* op, const char* what, int dims, std::int64_t least) const;

 private:
  friend LOCKSTEP_API std::ostream& operator<<(std::ostream& out, const PerDimension& numbers);

  std::optional<std::int64_t> all_;
  Shape each_;
};

/// Prints 3 or (3, 5).
LOCKSTEP_API std::ostream& operator<<(std::ostream& out, const PerDimension& numbers);

}  // namespace lockstep
