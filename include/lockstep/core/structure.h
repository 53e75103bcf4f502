// The parts of a value (a pytree): the one way to walk modules, batches, arguments and outputs.
//
//   a struct with members()                            its members, by name
//   std::tuple, pair                                   their elements
//   std::vector, deque, list, array, and C arrays      their elements
//   std::optional, variant                             the value that they hold
//   std::map, unordered_map whose keys have <          their values, by key, in the order of the keys
//
// A value of any other type is one piece (a leaf of the pytree), which the caller handles or refuses with
// require_known().
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

/// The kind of a value: a piece, which has no parts to visit, or a structure with parts.
enum class Structure : std::uint8_t { piece, members, tuple, list, optional, variant, map };

/// True for types that are one piece although they have members(): modules, which a Visitor walks.
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

template <Structure kind, template <class...> class Container, class... T>
struct MadeWith : Made<kind, T...> {
  template <class... U>
  using With = Container<U...>;
};

// Traits of a type T: its kind; the types of its parts, which are not listed for a struct with members(); and
// With<U...>, the same structure with parts of types U.
template <class T>
struct MadeOf : Made<Structure::piece> {};
template <HasMembers T>
requires(!kIsPiece<T>) struct MadeOf<T> : Made<Structure::members> {
};
template <class... T>
struct MadeOf<std::tuple<T...>> : MadeWith<Structure::tuple, std::tuple, T...> {};
template <class A, class B>
struct MadeOf<std::pair<A, B>> : MadeWith<Structure::tuple, std::pair, A, B> {};
template <class T, class A>
struct MadeOf<std::vector<T, A>> : MadeWith<Structure::list, std::vector, T> {};
template <class T, class A>
struct MadeOf<std::deque<T, A>> : MadeWith<Structure::list, std::deque, T> {};
template <class T, class A>
struct MadeOf<std::list<T, A>> : MadeWith<Structure::list, std::list, T> {};
template <class T, std::size_t N>
struct MadeOf<std::array<T, N>> : Made<Structure::list, T> {
  template <class... U>
  using With = std::array<U..., N>;
};
template <class T, std::size_t N>
struct MadeOf<T[N]> : Made<Structure::list, T> {};
template <class T>
struct MadeOf<std::optional<T>> : MadeWith<Structure::optional, std::optional, T> {};
template <class... T>
struct MadeOf<std::variant<T...>> : MadeWith<Structure::variant, std::variant, T...> {};
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

// Visits a map's entries in the order of their keys; sorts those of an unordered map.
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

/// The kind of a type.
template <class T>
inline constexpr Structure kStructure = detail::MadeOf<std::remove_cv_t<T>>::kKind;

/// PartTypes<...> with the types of the parts. It is empty for a struct with members(), because a member may hold
/// values of the struct's own type, as in a tree.
template <class T>
using PartsOf = typename detail::MadeOf<std::remove_cv_t<T>>::Types;

/// How a path names a map's values, by the type of its keys.
template <class Key>
inline constexpr MemberPath::Step kKeyStep =
    std::convertible_to<const Key&, std::string_view> ? MemberPath::Step::text_key
    : std::is_arithmetic_v<Key>                       ? MemberPath::Step::number_key
                                                      : MemberPath::Step::other_key;

/// Calls visit(text) with a map's key as a path spells it.
template <class Key, class Visit>
void with_key_text(const Key& key, const Visit& visit) {
  if constexpr (kKeyStep<Key> == MemberPath::Step::text_key)
    visit(std::string_view(key));
  else if constexpr (kKeyStep<Key> == MemberPath::Step::number_key)
    visit(std::string_view(std::to_string(key)));
  else
    visit(std::string_view("..."));
}

/// True for structures whose number of parts (for a variant, whose alternative) is known only at run time.
template <class T>
inline constexpr bool kHasExtent = kStructure<T> == Structure::optional || kStructure<T> == Structure::variant ||
                                   kStructure<T> == Structure::map || requires(std::remove_cv_t<T>& value) {
  requires kStructure<T>
  == Structure::list;
  value.resize(0);
};

/// The present number of parts; for a variant, the index of its alternative.
template <class T>
requires kHasExtent<T> std::size_t extent_of(const T& value) {
  if constexpr (kStructure<T> == Structure::optional)
    return value ? 1 : 0;
  else if constexpr (kStructure<T> == Structure::variant)
    return value.index();
  else
    return value.size();
}

/// Calls visit(part, path) for each part of `value`, in order. `at` is the path of `value`. The value of an optional or
/// a variant has the path of the optional or variant itself.
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

/// Does not compile unless kIsKnown: the caller cannot handle a piece of type T.
template <class T, bool kIsKnown>
constexpr void require_known() {
  static_assert(
      kIsKnown,
      "Lockstep cannot find the tensors in this type. Add auto members() { return lockstep::members(\"x\", x); }; or, "
      "for another library's class without tensors, template <> inline constexpr bool lockstep::kIsPlain<T> = true; or "
      "pass std::ref(x) if replicas share it, such as a callable. A module holds nn::Parameter, nn::Buffer, modules, "
      "numbers and enums, in containers of lockstep/core/structure.h");
}

}  // namespace lockstep
