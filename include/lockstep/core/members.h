// Members by name: user structs and modules list their members.
//
//   auto members() { return nn::members("weight", weight, "bias", bias); }
#pragma once

#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <lockstep/core/export.h>

namespace lockstep {

/// A member and its name.
template <class T>
struct Named {
  std::string_view name;
  T& value;  ///< The member itself.
};

/// Members and their names, in order. (No std::tuple: every module has one of these, and tuples of many elements
/// compile slowly.)
template <class... T>
struct NamedMembers {
  static constexpr std::size_t kCount = sizeof...(T);  ///< The number of members.

  std::string_view names[kCount + 1];  ///< The last one is unused: arrays of size 0 are not allowed.
  const void* values[kCount + 1];      ///< Addresses of the members.

  /// Calls visit(name, member) for each member.
  template <class Visit>
  void for_each(Visit& visit) const {
    [[maybe_unused]] std::size_t i = 0;
    ((visit(names[i], at<T>(i)), ++i), ...);
  }
  /// Member I.
  template <std::size_t I>
  auto get() const -> Named<std::tuple_element_t<I, std::tuple<T...>>> {
    return {names[I], at<std::tuple_element_t<I, std::tuple<T...>>>(I)};
  }

 private:
  template <class M>
  M& at(std::size_t i) const {
    return *static_cast<M*>(const_cast<void*>(values[i]));
  }
};

namespace detail {
template <class... A, class... B>
NamedMembers<A..., B...> joined(const NamedMembers<A...>& first, const NamedMembers<B...>& second) {
  NamedMembers<A..., B...> all = {};
  for (std::size_t i = 0; i < sizeof...(A); ++i) all.names[i] = first.names[i], all.values[i] = first.values[i];
  for (std::size_t i = 0; i < sizeof...(B); ++i)
    all.names[sizeof...(A) + i] = second.names[i], all.values[sizeof...(A) + i] = second.values[i];
  return all;
}
}  // namespace detail

inline NamedMembers<> members() { return {}; }  ///< For a type without members.

/// members("a", a, "b", b): references with their names, in order.
template <class A>
NamedMembers<A> members(std::string_view name, A& value) {
  return {{name}, {&value}};
}
template <class A, class B>
NamedMembers<A, B> members(std::string_view a, A& of_a, std::string_view b, B& of_b) {
  return {{a, b}, {&of_a, &of_b}};
}
template <class A, class B, class C>
NamedMembers<A, B, C> members(std::string_view a, A& of_a, std::string_view b, B& of_b, std::string_view c, C& of_c) {
  return {{a, b, c}, {&of_a, &of_b, &of_c}};
}
template <class A, class B, class C, class D>
NamedMembers<A, B, C, D> members(std::string_view a, A& of_a, std::string_view b, B& of_b, std::string_view c, C& of_c,
                                 std::string_view d, D& of_d) {
  return {{a, b, c, d}, {&of_a, &of_b, &of_c, &of_d}};
}
template <class A, class B, class C, class D, class... Rest>
requires(sizeof...(Rest) > 0) auto members(std::string_view a, A& of_a, std::string_view b, B& of_b, std::string_view c,
                                           C& of_c, std::string_view d, D& of_d, Rest&&... rest) {
  return detail::joined(members(a, of_a, b, of_b, c, of_c, d, of_d), members(std::forward<Rest>(rest)...));
}

namespace detail {
template <class... T>
inline constexpr bool kAreNamed = true;
template <class T>
inline constexpr bool kAreNamed<T> = false;
template <class Name, class T, class... Rest>
inline constexpr bool kAreNamed<Name, T, Rest...> = std::is_convertible_v<Name, std::string_view>&& kAreNamed<Rest...>;
}  // namespace detail

/// This overload never compiles: its static_assert reports members that are listed without names.
template <class... T>
requires(!detail::kAreNamed<T...>) NamedMembers<> members(T&&...) {
  static_assert(detail::kAreNamed<T...>, "each member has a name before it: members(\"fc1\", fc1, \"fc2\", fc2)");
  return {};
}

template <class M>
concept HasMembers = requires(M& object) {
  object.members();
};

/// Calls visit(name, member) for each member.
template <HasMembers M, class Visitor>
void for_each_member(M& object, Visitor&& visit) {
  object.members().for_each(visit);
}

}  // namespace lockstep
