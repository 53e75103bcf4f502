#include <lockstep/nn/sequential.h>

#include <cxxabi.h>

#include "core/text.h"

namespace lockstep::nn {
namespace {

std::string readable(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(type.name(), nullptr, nullptr, &status),
                                                    std::free);
  return name ? name.get() : type.name();
}

}  // namespace

void AnyModule::throw_wrong_type(const std::type_info& wanted, const ModuleBase& held) {
  throw InvalidArgument(text("[AnyModule::as] expected ", readable(typeid(held)), ", got ", readable(wanted)));
}

AnyModule& Sequential::operator[](std::size_t index) {
  if (index >= items_.size())
    throw InvalidArgument(text("[Sequential] expected an index below ", items_.size(), ", got ", index));
  return items_[index];
}

Tensor Sequential::forward(Tensor x) {
  for (AnyModule& module : items_) x = module.forward(x);
  return x;
}

void Sequential::visit(const Path& path, Visitor& visitor) {
  visitor.module(path, *this);
  detail::visit_member(path, items_, visitor);
}

}  // namespace lockstep::nn
