#include <lockstep/core/dtype.h>

#include <algorithm>
#include <array>
#include <ostream>

namespace lockstep {
namespace {

constexpr std::array<std::string_view, 8> kNames = {"bool",    "uint8",    "int32",   "int64",
                                                    "float16", "bfloat16", "float32", "float64"};

}  // namespace

std::string_view name(DType dtype) noexcept {
  return std::size_t(dtype) < kNames.size() ? kNames[std::size_t(dtype)] : "an unknown dtype";
}

DType promote(DType a, DType b) noexcept {
  const auto [low, high] = std::minmax(a, b);
  return low == kFloat16 && high == kBFloat16 ? kFloat32 : high;
}

std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name(dtype); }

}  // namespace lockstep
