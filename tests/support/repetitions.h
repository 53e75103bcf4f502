// How often tests repeat what chance or timing decides, and how long they train.
#pragma once

namespace lockstep::testing {

/// Returns count, or a fifth of it under a sanitizer, which is slow and would report a bug in any repetition.
constexpr int repetitions(int count) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return count / 5;
#else
  return count;
#endif
}

/// The step between the places that exhaustive tests try.
inline constexpr int kStride = 5 / repetitions(5);

}  // namespace lockstep::testing
