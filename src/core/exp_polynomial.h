// The exponential of floats, one or several in a vector register: without branches or calls, so that a loop over it
// becomes vector instructions. A pure function.
#pragma once

#include <bit>
#include <cstdint>

namespace lockstep {

/// e^t for t in [-87, 88.3], within 2 units in the last place. The reduction t = n log 2 + r and the polynomial of r
/// are those of Cephes (Moshier, netlib.org/cephes, expf.c). F: float or a vector of floats; I: as many std::int32_t.
template <class F, class I>
[[gnu::always_inline]] inline F exp_by_polynomial(F t) {
  constexpr float kShifter = 12582912;  // 1.5 2^23: adding it rounds to whole numbers
  const F shifted = t * 1.44269504088896341f + kShifter;
  const F n = shifted - kShifter;
  const F r = t - n * 0.693359375f + n * 2.12194440e-4f;
  F p = F{} + 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  return p * std::bit_cast<F>((std::bit_cast<I>(shifted) - 0x4B400000 + 127) << 23);
}

}  // namespace lockstep
