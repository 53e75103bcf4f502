// Names of types, for people.
#pragma once

#include <string>
#include <typeinfo>

namespace lockstep {

/// As C++ spells it: lockstep::nn::Conv<2>.
std::string type_name(const std::type_info& type);
/// Without namespaces and parameters, but for a number of dimensions: Conv2d.
std::string short_type_name(const std::type_info& type);

}  // namespace lockstep
