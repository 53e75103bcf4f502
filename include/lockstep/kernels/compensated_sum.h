// A sum of doubles, and what rounding has lost of it: about twice the precision of a double. So the order of the
// additions does not show in value(): two orders differ by about 1e-26 of the sum of magnitudes, and value() rounds
// only then. (Ogita, Rump and Oishi, "Accurate Sum and Dot Product", SIAM J. Sci. Comput. 26, 2005: Sum2.)
#pragma once

#include <lockstep/core/float16.h>

namespace lockstep {

struct CompensatedSum {
  double sum, error;

  LOCKSTEP_HD CompensatedSum operator+(const CompensatedSum& other) const {
    const double both = sum + other.sum, added = both - sum;
    return {both, (error + other.error) + ((sum - (both - added)) + (other.sum - added))};
  }
  /// Infinite or NaN if the sum is.
  LOCKSTEP_HD double value() const { return sum - sum == 0 ? sum + error : sum; }
};

}  // namespace lockstep
