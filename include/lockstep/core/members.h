// Members by name: how user structs and modules say what they hold.
//
//   auto members() { return nn::members("weight", weight, "bias", bias); }
#pragma once

#include <string_view>
#include <tuple>
#include <utility>

namespace lockstep {

/// A member and its name.
template <class T>
struct Named {
  std::string_view name;
  T& value;  ///< The member itself.
};

inline std::tuple<> members() { return {}; }  ///< Of a type without members.

/// members("a", a, "b", b): references with their names, in order.
template <class T, class... Rest>
auto members(std::string_view name, T& value, Rest&&... rest) {
  return std::tuple_cat(std::tuple(Named<T>{name, value}), members(std::forward<Rest>(rest)...));
}

template <class M>
concept HasMembers = requires(M& object) {
  object.members();
};

/// Calls visit(name, member) for each member.
template <HasMembers M, class Visitor>
void for_each_member(M& object, Visitor&& visit) {
  std::apply([&](auto... member) { (visit(member.name, member.value), ...); }, object.members());
}

}  // namespace lockstep
