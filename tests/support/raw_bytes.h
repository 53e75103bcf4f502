// Numbers as a file of this machine's byte order has them.
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
