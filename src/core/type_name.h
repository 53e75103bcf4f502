// Readable names of types, for messages.
#pragma once

#include <string>
#include <typeinfo>

namespace lockstep {

/// The full C++ name: lockstep::nn::Conv<2>.
std::string type_name(const std::type_info& type);
/// The name without namespaces and template parameters, except a number of dimensions: Conv2d.
std::string short_type_name(const std::type_info& type);

}  // namespace lockstep
