// What a value is made of: the one way to look into modules, batches, arguments and outputs.
//
//   a struct with members()                            its members, by name
//   std::tuple, pair                                   their elements
//   std::vector, deque, list, array, and C arrays      their elements
//   std::optional, variant                             what is there
//   std::map, unordered_map with keys that compare     their values, by key, in the order of the keys
//
// Everything else is one piece, which the caller knows, or refuses with require_known().
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <lockstep/core/members.h>
#include <lockstep/core/path.h>

namespace lockstep {

/// What a value is made of: nothing that is looked into (a piece), or parts.
enum class Structure : std::uint8_t { piece, members, tuple, list, optional, variant, map };

/// True for types with members() that are one piece all the same: modules, which a Visitor walks over.
template <class T>
inline constexpr bool kIsPiece = false;

template <class... T>
struct PartTypes {};

namespace detail {

template <Structure kind, class... T>
struct Made {
  static constexpr Structure kKind = kind;
  using Types = PartTypes<T...>;
};

// A type's kind, the types of its parts (none of a struct's members), and With<U...>: the same of other parts.
template <class T>
struct MadeOf : Made<Structure::piece> {};
template <HasMembers T>
requires(!kIsPiece<T>) struct MadeOf<T> : Made<Structure::members> {
};
template <class... T>
struct MadeOf<std::tuple<T...>> : Made<Structure::tuple, T...> {
  template <class... U>
  using With = std::tuple<U...>;
};
template <class A, class B>
struct MadeOf<std::pair<A, B>> : Made<Structure::tuple, A, B> {
  template <class... U>
  using With = std::pair<U...>;
};
template <class T, class A>
struct MadeOf<std::vector<T, A>> : Made<Structure::list, T> {
  template <class... U>
  using With = std::vector<U...>;
};
template <class T, class A>
struct MadeOf<std::deque<T, A>> : Made<Structure::list, T> {
  template <class... U>
  using With = std::deque<U...>;
};
template <class T, class A>
struct MadeOf<std::list<T, A>> : Made<Structure::list, T> {
  template <class... U>
  using With = std::list<U...>;
};
template <class T, std::size_t N>
struct MadeOf<std::array<T, N>> : Made<Structure::list, T> {
  template <class... U>
  using With = std::array<U..., N>;
};
template <class T, std::size_t N>
struct MadeOf<T[N]> : Made<Structure::list, T> {};
template <class T>
struct MadeOf<std::optional<T>> : Made<Structure::optional, T> {
  template <class... U>
  using With = std::optional<U...>;
};
template <class... T>
struct MadeOf<std::variant<T...>> : Made<Structure::variant, T...> {
  template <class... U>
  using With = std::variant<U...>;
};
template <class K, class T, class C, class A>
struct MadeOf<std::map<K, T, C, A>> : Made<Structure::map, T> {
  template <class... U>
  using With = std::map<K, U..., C>;
};
template <std::totally_ordered K, class T, class H, class E, class A>
struct MadeOf<std::unordered_map<K, T, H, E, A>> : Made<Structure::map, T> {
  template <class... U>
  using With = std::unordered_map<K, U..., H, E>;
};

// The entries of a map by their keys: those of an unordered one lie as they may.
template <class Map, class Visit>
void for_each_entry(Map& map, const Visit& visit) {
  if constexpr (requires { map.hash_function(); }) {
    std::vector<decltype(&*map.begin())> entries;
    for (auto& entry : map) entries.push_back(&entry);
    std::sort(entries.begin(), entries.end(), [](const auto* a, const auto* b) { return a->first < b->first; });
    for (auto* const entry : entries) visit(entry->first, entry->second);
  } else {
    for (auto& [key, part] : map) visit(key, part);
  }
}

}  // namespace detail

/// What a type is made of.
template <class T>
inline constexpr Structure kStructure = detail::MadeOf<std::remove_cv_t<T>>::kKind;

/// PartTypes<...>: the types of the parts; none for a struct, whose members() may be of its own type.
template <class T>
using PartsOf = typename detail::MadeOf<std::remove_cv_t<T>>::Types;

/// How a map with such keys names its values.
template <class Key>
inline constexpr MemberPath::Step kKeyStep =
    std::convertible_to<const Key&, std::string_view> ? MemberPath::Step::text_key
    : std::is_arithmetic_v<Key>                       ? MemberPath::Step::number_key
                                                      : MemberPath::Step::other_key;

/// Calls visit(text) with how a path spells a map's key.
template <class Key, class Visit>
void with_key_text(const Key& key, const Visit& visit) {
  if constexpr (kKeyStep<Key> == MemberPath::Step::text_key)
    visit(std::string_view(key));
  else if constexpr (kKeyStep<Key> == MemberPath::Step::number_key)
    visit(std::string_view(std::to_string(key)));
  else
    visit(std::string_view("..."));
}

/// True for structures whose number of parts, or choice among them, is not given by their type.
template <class T>
inline constexpr bool kHasExtent = kStructure<T> == Structure::optional || kStructure<T> == Structure::variant ||
                                   kStructure<T> == Structure::map || requires(std::remove_cv_t<T>& value) {
  requires kStructure<T>
  == Structure::list;
  value.resize(0);
};

/// The number of parts at this time; of a variant which alternative it holds.
template <class T>
requires kHasExtent<T> std::size_t extent_of(const T& value) {
  if constexpr (kStructure<T> == Structure::optional)
    return value ? 1 : 0;
  else if constexpr (kStructure<T> == Structure::variant)
    return value.index();
  else
    return value.size();
}

/// Calls visit(part, path) for each part of `value`, which stands at `at`, in order. What an optional or a variant
/// holds stands where they do.
template <class T, class Visit>
requires(kStructure<T> != Structure::piece) void for_each_part(T& value, const MemberPath& at, const Visit& visit) {
  [[maybe_unused]] std::size_t index = 0;
  if constexpr (kStructure<T> == Structure::members) {
    for_each_member(value, [&](std::string_view name, auto& part) { visit(part, MemberPath(at, name)); });
  } else if constexpr (kStructure<T> == Structure::tuple) {
    std::apply([&](auto&... part) { (visit(part, MemberPath(at, index++)), ...); }, value);
  } else if constexpr (kStructure<T> == Structure::list) {
    for (auto& part : value) visit(part, MemberPath(at, index++));
  } else if constexpr (kStructure<T> == Structure::optional) {
    if (value) visit(*value, at);
  } else if constexpr (kStructure<T> == Structure::variant) {
    if (!value.valueless_by_exception()) std::visit([&](auto& part) { visit(part, at); }, value);
  } else {
    detail::for_each_entry(value, [&]<class Key>(const Key& key, auto& part) {
      with_key_text(key, [&](std::string_view text) { visit(part, MemberPath(at, kKeyStep<Key>, text)); });
    });
  }
}

/// Does not compile for a piece of a type T that its caller does not know.
template <class T, bool kIsKnown>
constexpr void require_known() {
  static_assert(kIsKnown,
                "tensors in this type would be overlooked: give the struct members(), as in "
                "auto members() { return lockstep::members(\"x\", x); }, or an operator== if it holds none; "
                "what replicas share as it is, such as a callable, is given as std::ref(x); "
                "a module holds nn::Parameter, nn::Buffer, modules, numbers and enums, in containers of "
                "lockstep/core/structure.h");
}

}  // namespace lockstep
