// A sum of doubles, and the rounding error of that sum: together they have about twice the precision of a double. So
// the order of the additions hardly ever changes value(): two orders differ by about 1e-26 of the sum of magnitudes,
// before value() rounds. (Ogita, Rump and Oishi, "Accurate Sum and Dot Product", SIAM J. Sci. Comput. 26, 2005: Sum2.)
#pragma once

#include <lockstep/core/float16.h>

namespace lockstep {

struct CompensatedSum {
  double sum, error;

  LOCKSTEP_HD CompensatedSum operator+(const CompensatedSum& other) const {
    const double both = sum + other.sum, added = both - sum;
    return {both, (error + other.error) + ((sum - (both - added)) + (other.sum - added))};
  }
  /// The rounded sum. Infinite or NaN if `sum` is.
  LOCKSTEP_HD double value() const { return sum - sum == 0 ? sum + error : sum; }
};

}  // namespace lockstep
