// The tensors inside a value: a tensor itself, and those in tuples, pairs, vectors, arrays, deques, lists, optionals,
// variants, maps, and structs with members(). What scatter splits and gather joins.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <lockstep/core/members.h>
#include <lockstep/nn/module.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep {

namespace detail {

template <class T>
struct HoldsTensors
    : std::bool_constant<std::derived_from<T, Tensor> || (HasMembers<T> && !std::derived_from<T, nn::ModuleBase>)> {};
template <class... T>
struct HoldsTensors<std::tuple<T...>> : std::disjunction<HoldsTensors<T>...> {};
template <class A, class B>
struct HoldsTensors<std::pair<A, B>> : std::disjunction<HoldsTensors<A>, HoldsTensors<B>> {};
template <class T, class A>
struct HoldsTensors<std::vector<T, A>> : HoldsTensors<T> {};
template <class T, std::size_t N>
struct HoldsTensors<std::array<T, N>> : HoldsTensors<T> {};
template <class T>
struct HoldsTensors<std::optional<T>> : HoldsTensors<T> {};
template <class K, class T, class C, class A>
struct HoldsTensors<std::map<K, T, C, A>> : HoldsTensors<T> {};
template <class T, class A>
struct HoldsTensors<std::deque<T, A>> : HoldsTensors<T> {};
template <class T, class A>
struct HoldsTensors<std::list<T, A>> : HoldsTensors<T> {};
template <std::totally_ordered K, class T, class H, class E, class A>
struct HoldsTensors<std::unordered_map<K, T, H, E, A>> : HoldsTensors<T> {};
template <class... T>
struct HoldsTensors<std::variant<T...>> : std::disjunction<HoldsTensors<T>...> {};

struct Extent {  // stands for how many parts a value has at this time
  bool operator==(const Extent&) const = default;
};
inline constexpr Extent kExtent;

template <class T>
struct Comparable : std::bool_constant<std::equality_comparable<T> || std::is_empty_v<T>> {};
template <class T>
requires(!std::same_as<typename T::value_type, T>) struct Comparable<T>
    : std::conjunction<Comparable<typename T::value_type>, std::bool_constant<std::equality_comparable<T>>> {
};
// What a pointer leads to belongs to somebody else, but tensors there would neither be split nor joined.
template <class T>
struct Comparable<T*> : std::negation<HoldsTensors<std::remove_cv_t<T>>> {};
template <class T, class D>
struct Comparable<std::unique_ptr<T, D>> : Comparable<T*> {};
template <class T>
struct Comparable<std::shared_ptr<T>> : Comparable<T*> {};
template <class T>
struct Comparable<std::reference_wrapper<T>> : Comparable<T*> {};
template <class... T>
struct Comparable<std::tuple<T...>> : std::conjunction<Comparable<std::remove_const_t<T>>...> {};
template <class... T>
struct Comparable<std::variant<T...>> : std::conjunction<Comparable<T>...> {};
template <class A, class B>
struct Comparable<std::pair<A, B>>
    : std::conjunction<Comparable<std::remove_const_t<A>>, Comparable<std::remove_const_t<B>>> {};

// The entries of a map by their keys: those of an unordered one lie as they may.
template <class Map>
auto entries_in_order(Map& map) {
  std::vector<decltype(&*map.begin())> entries;
  for (auto& entry : map) entries.push_back(&entry);
  if constexpr (requires { map.hash_function(); })
    std::sort(entries.begin(), entries.end(), [](const auto* a, const auto* b) { return a->first < b->first; });
  return entries;
}

}  // namespace detail

/// A tensor, and how the user reaches it.
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// True for types that may hold tensors.
template <class T>
inline constexpr bool kHoldsTensors = detail::HoldsTensors<T>::value;

/// True for types of which it is known where their tensors are: those that may hold some, values that can be compared,
/// as tensors cannot, and pointers and reference_wrappers to others than tensors, which are for what replicas share.
template <class T>
inline constexpr bool kShowsTensors = kHoldsTensors<T> || detail::Comparable<T>::value;

/// Does not compile for a part that may hide tensors.
template <class Part>
void require_shown_tensors() {
  static_assert(kShowsTensors<Part>,
                "tensors in this type would be overlooked: give the struct members(), as in "
                "auto members() { return lockstep::members(\"x\", x); }, or an operator== if it holds none; "
                "what replicas share as it is, such as a callable, is given as std::ref(x)");
}

/// Calls on_tensor(name, tensor) for each tensor in `value`, in order, and on_other(name, part) for each part that
/// holds none, and for the size of each part that has one. Names spell how the user reaches the part: output[1].mask.
/// Values of one structure have the same names.
template <class T, class OnTensor, class OnOther>
void visit_tensors(T& value, const std::string& name, OnTensor&& on_tensor, OnOther&& on_other) {
  using Plain = std::remove_const_t<T>;
  const auto inside = [&](auto& part, const std::string& part_name) {
    visit_tensors(part, part_name, on_tensor, on_other);
  };
  if constexpr (std::derived_from<Plain, Tensor>) {
    on_tensor(name, value);
  } else if constexpr (!kHoldsTensors<Plain>) {
    on_other(name, value);
  } else if constexpr (HasMembers<Plain>) {
    for_each_member(value,
                    [&](std::string_view member, auto& part) { inside(part, name + "." + std::string(member)); });
  } else if constexpr (requires { value.has_value(); }) {
    on_other(name + (value ? " that is set" : " that is not set"), detail::kExtent);
    if (value) inside(*value, name);
  } else if constexpr (requires { value.valueless_by_exception(); }) {
    on_other(name + " of alternative " + std::to_string(value.index()), detail::kExtent);
    if (!value.valueless_by_exception()) std::visit([&](auto& part) { inside(part, name); }, value);
  } else if constexpr (requires { typename Plain::mapped_type; }) {
    on_other(name + " of size " + std::to_string(value.size()), detail::kExtent);
    for (auto* const entry : detail::entries_in_order(value)) {
      auto& [key, part] = *entry;
      if constexpr (std::convertible_to<decltype(key), std::string>) {
        inside(part, name + "[\"" + std::string(key) + "\"]");
      } else if constexpr (std::is_arithmetic_v<typename Plain::key_type>) {
        inside(part, name + "[" + std::to_string(key) + "]");
      } else {
        on_other("a key of " + name, key);
        inside(part, name + "[...]");
      }
    }
  } else if constexpr (requires { value.begin(); }) {
    if constexpr (requires { value.resize(0); })
      on_other(name + " of size " + std::to_string(value.size()), detail::kExtent);
    std::size_t index = 0;
    for (auto& part : value) inside(part, name + "[" + std::to_string(index++) + "]");
  } else {
    std::size_t index = 0;
    std::apply([&](auto&... part) { (inside(part, name + "[" + std::to_string(index++) + "]"), ...); }, value);
  }
}

}  // namespace lockstep
