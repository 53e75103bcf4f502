// Rows between 16-bit floats and floats.
#include "tensor/kernels/map.h"

namespace lockstep {
namespace {

template <class T>
void widen_row(const T* from, std::int64_t step, std::int64_t count, float* to) noexcept {
  if (step == 1)
    for (std::int64_t i = 0; i < count; ++i) to[i] = float(from[i]);
  else
    for (std::int64_t i = 0; i < count; ++i) to[i] = float(from[i * step]);
}

template <class T>
void narrow_row(const float* from, std::int64_t count, T* to, std::int64_t step) noexcept {
  if (step == 1)
    for (std::int64_t i = 0; i < count; ++i) to[i] = T(from[i]);
  else
    for (std::int64_t i = 0; i < count; ++i) to[i * step] = T(from[i]);
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
