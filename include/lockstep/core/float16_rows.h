// Converts rows of 16-bit floats to and from float, in which kernels compute.
#pragma once

#include <cstdint>

#include <lockstep/core/export.h>
#include <lockstep/core/float16.h>

namespace lockstep {

/// to[i] = from[i * step], for 0 <= i < count. Exact.
LOCKSTEP_API void widen(const Half* from, std::int64_t step, std::int64_t count, float* to) noexcept;
/// to[i] = from[i * step], for 0 <= i < count. Exact.
LOCKSTEP_API void widen(const BFloat16* from, std::int64_t step, std::int64_t count, float* to) noexcept;
/// to[i * step] = from[i], for 0 <= i < count. Rounds to nearest, ties to even.
LOCKSTEP_API void narrow(const float* from, std::int64_t count, Half* to, std::int64_t step) noexcept;
/// to[i * step] = from[i], for 0 <= i < count. Rounds to nearest, ties to even.
LOCKSTEP_API void narrow(const float* from, std::int64_t count, BFloat16* to, std::int64_t step) noexcept;

}  // namespace lockstep
