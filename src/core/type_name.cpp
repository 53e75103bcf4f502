#include "core/type_name.h"

#include <cxxabi.h>

#include <cctype>
#include <cstdlib>
#include <memory>

namespace lockstep {

std::string type_name(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(type.name(), nullptr, nullptr, &status),
                                                    std::free);
  return name ? name.get() : type.name();
}

std::string short_type_name(const std::type_info& type) {
  std::string name = type_name(type);
  std::string dimensions;
  if (const std::size_t parameters = name.find('<'); parameters != name.npos) {
    if (name.size() == parameters + 3 && std::isdigit(static_cast<unsigned char>(name[parameters + 1])))
      dimensions = {name[parameters + 1], 'd'};
    name.resize(parameters);
  }
  if (const std::size_t scope = name.rfind("::"); scope != name.npos) name.erase(0, scope + 2);
  return name + dimensions;
}

}  // namespace lockstep
