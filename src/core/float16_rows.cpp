#include <lockstep/core/float16_rows.h>

#include <type_traits>

#include <lockstep/core/vectorized.h>

#ifdef LOCKSTEP_INSTRUCTION_SETS
#include <immintrin.h>
#endif

namespace lockstep {
namespace {

#ifdef LOCKSTEP_INSTRUCTION_SETS
// Converts eight elements at a time with F16C instructions; returns the number converted. A NaN gets the bits that Half
// gives.
[[gnu::target("avx2,f16c")]] std::int64_t widen_eights(const Half* from, std::int64_t count, float* to) noexcept {
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    const __m256 values = _mm256_cvtph_ps(halves);
    const __m256i words = _mm256_cvtepu16_epi32(halves);
    const __m256i sign = _mm256_slli_epi32(_mm256_and_si256(words, _mm256_set1_epi32(0x8000)), 16);
    const __m256i payload = _mm256_slli_epi32(_mm256_and_si256(words, _mm256_set1_epi32(0x03ff)), 13);
    const __m256i nan = _mm256_or_si256(_mm256_or_si256(sign, payload), _mm256_set1_epi32(0x7f800000));
    _mm256_storeu_ps(to + i,
                     _mm256_blendv_ps(values, _mm256_castsi256_ps(nan), _mm256_cmp_ps(values, values, _CMP_UNORD_Q)));
  }
  return i;
}
[[gnu::target("avx2,f16c")]] std::int64_t narrow_eights(const float* from, std::int64_t count, Half* to) noexcept {
  const __m256 sign_bit = _mm256_castsi256_ps(_mm256_set1_epi32(int(0x80000000)));
  const __m256 quiet = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 values = _mm256_loadu_ps(from + i), nan = _mm256_or_ps(_mm256_and_ps(values, sign_bit), quiet);
    const __m256 clean = _mm256_blendv_ps(values, nan, _mm256_cmp_ps(values, values, _CMP_UNORD_Q));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(clean, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  return i;
}
#endif

template <class T>
void widen_row(const T* from, std::int64_t step, std::int64_t count, float* to) noexcept {
  std::int64_t i = 0;
#ifdef LOCKSTEP_INSTRUCTION_SETS
  if constexpr (std::is_same_v<T, Half>)
    if (step == 1 && instruction_set() != InstructionSet::plain) i = widen_eights(from, count, to);
#endif
  if (step != 1) {
    for (; i < count; ++i) to[i] = float(from[i * step]);
    return;
  }
  vectorized([=] {
    for (std::int64_t k = i; k < count; ++k) to[k] = float(from[k]);
  });
}

template <class T>
void narrow_row(const float* from, std::int64_t count, T* to, std::int64_t step) noexcept {
  std::int64_t i = 0;
#ifdef LOCKSTEP_INSTRUCTION_SETS
  if constexpr (std::is_same_v<T, Half>)
    if (step == 1 && instruction_set() != InstructionSet::plain) i = narrow_eights(from, count, to);
#endif
  if (step != 1) {
    for (; i < count; ++i) to[i * step] = T(from[i]);
    return;
  }
  vectorized([=] {
    for (std::int64_t k = i; k < count; ++k) to[k] = T(from[k]);
  });
}

}  // namespace

void widen(const Half* from, std::int64_t step, std::int64_t count, float* to) noexcept {
  widen_row(from, step, count, to);
}
void widen(const BFloat16* from, std::int64_t step, std::int64_t count, float* to) noexcept {
  widen_row(from, step, count, to);
}
void narrow(const float* from, std::int64_t count, Half* to, std::int64_t step) noexcept {
  narrow_row(from, count, to, step);
}
void narrow(const float* from, std::int64_t count, BFloat16* to, std::int64_t step) noexcept {
  narrow_row(from, count, to, step);
}

}  // namespace lockstep
