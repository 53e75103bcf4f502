#include <lockstep/core/dtype.h>

#include <algorithm>
#include <array>
#include <ostream>

namespace lockstep {
namespace {

struct Entry {
  std::string_view name;
  std::size_t bytes;
};
constexpr std::array<Entry, 8> kEntries = {{{"bool", 1},
                                            {"uint8", 1},
                                            {"int32", 4},
                                            {"int64", 8},
                                            {"float16", 2},
                                            {"bfloat16", 2},
                                            {"float32", 4},
                                            {"float64", 8}}};

}  // namespace

std::size_t size_of(DType dtype) noexcept { return kEntries[std::size_t(dtype)].bytes; }

std::string_view name(DType dtype) noexcept { return kEntries[std::size_t(dtype)].name; }

bool is_floating(DType dtype) noexcept { return dtype >= kFloat16; }

DType promote(DType a, DType b) noexcept {
  const auto [low, high] = std::minmax(a, b);
  return low == kFloat16 && high == kBFloat16 ? kFloat32 : high;
}

std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name(dtype); }

}  // namespace lockstep
