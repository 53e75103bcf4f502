// Numbers as bytes in this machine's byte order.
#pragma once

#include <cstring>
#include <string>

namespace lockstep::testing {

template <class T>
std::string raw(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

}  // namespace lockstep::testing
