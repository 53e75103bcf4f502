// How often tests try what chance or timing decides, and how long they train.
#pragma once

namespace lockstep::testing {

/// So often; a fifth of that in a program that a sanitizer slows down, which looks for what each try would show.
constexpr int repetitions(int count) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return count / 5;
#else
  return count;
#endif
}

/// How far apart are the places that tests try, where they go through all of a row.
inline constexpr int kStride = 5 / repetitions(5);

}  // namespace lockstep::testing
