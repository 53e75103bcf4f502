// The wire format of protocol buffers (protobuf.dev/programming-guides/encoding), as far as ONNX's files need it.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string_view>

namespace lockstep::onnx {

/// One field of a message. `number` holds varints, and the bits of fixed32 and fixed64.
struct Field {
  int id = 0;
  std::uint64_t number = 0;
  std::string_view bytes;
};

/// Iterates over the fields of a message. Throws std::runtime_error for a truncated one.
class Fields {
 public:
  explicit Fields(std::string_view message) : rest_(message) {}

  bool next(Field& field) {
    if (rest_.empty()) return false;
    const std::uint64_t key = varint();
    field = {int(key >> 3), 0, {}};
    switch (key & 7) {
      case 0: field.number = varint(); break;
      case 1: field.number = fixed(8); break;
      case 2: field.bytes = take(varint()); break;
      case 5: field.number = fixed(4); break;
      default: throw std::runtime_error("protobuf: unknown wire type");
    }
    return true;
  }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = std::uint8_t(take(1)[0]);
      value |= std::uint64_t(byte & 127) << shift;
      if (byte < 128) return value;
    }
    throw std::runtime_error("protobuf: a varint of more than 64 bits");
  }
  bool empty() const { return rest_.empty(); }

 private:
  std::string_view take(std::uint64_t count) {
    if (count > rest_.size()) throw std::runtime_error("protobuf: a message is cut off");
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  std::uint64_t fixed(std::size_t count) {
    std::uint64_t value = 0;
    std::memcpy(&value, take(count).data(), count);
    return value;
  }

  std::string_view rest_;
};

}  // namespace lockstep::onnx
