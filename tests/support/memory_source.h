// A source of bytes in memory instead of a file, and comparison of state dicts.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include <lockstep/core/error.h>
#include <lockstep/tensor/state_dict.h>

#include "io/byte_source.h"

namespace lockstep::testing {

class MemorySource : public ByteSource {
 public:
  explicit MemorySource(std::string_view bytes) : bytes_(bytes) {}
  const std::string& name() const override { return name_; }
  std::uint64_t size() const override { return bytes_.size(); }
  void read(std::uint64_t offset, void* to, std::size_t bytes) override {
    if (offset > bytes_.size() || bytes > bytes_.size() - offset) throw FormatError(name_, offset, "read past the end");
    std::memcpy(to, bytes_.data() + offset, bytes);
  }

 private:
  std::string name_ = "memory";
  std::string_view bytes_;
};

/// The elements of a tensor as bytes.
template <class T>
std::string bytes_as(const Tensor& tensor) {
  std::string bytes;
  for (const T value : tensor.to_vector<T>()) bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  return bytes;
}
inline std::string bytes_of(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case kBool: return bytes_as<bool>(tensor);
    case kUInt8: return bytes_as<std::uint8_t>(tensor);
    case kInt32: return bytes_as<std::int32_t>(tensor);
    case kInt64: return bytes_as<std::int64_t>(tensor);
    case kFloat16: return bytes_as<Half>(tensor);
    case kBFloat16: return bytes_as<BFloat16>(tensor);
    case kFloat32: return bytes_as<float>(tensor);
    case kFloat64: return bytes_as<double>(tensor);
  }
  return "";
}

/// Returns true if both have the same keys in the same order, with the same shapes, dtypes and bytes.
inline bool same(const StateDict& a, const StateDict& b) {
  if (a.size() != b.size()) return false;
  auto other = b.begin();
  for (const auto& [key, tensor] : a) {
    const Tensor& twin = other->second;
    if (key != other++->first || tensor.dtype() != twin.dtype() || tensor.sizes() != twin.sizes()) return false;
    if (bytes_of(tensor) != bytes_of(twin)) return false;
  }
  return true;
}

}  // namespace lockstep::testing
