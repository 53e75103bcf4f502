// The tensors inside a value: a tensor itself, and those in the structures of core/structure.h. scatter splits them,
// gather joins them, and a Trainer moves them.
#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include <lockstep/core/structure.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// A tensor, and its path as the user would write it.
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

namespace detail {

template <class T>
consteval bool holds_tensors();

template <class... T>
consteval bool any_holds_tensors(PartTypes<T...>) {
  return (holds_tensors<T>() || ...);
}

template <class T>
consteval bool holds_tensors() {
  if constexpr (std::derived_from<T, Tensor> || kStructure<T> == Structure::members)
    return true;
  else
    return any_holds_tensors(PartsOf<T>());
}

}  // namespace detail

/// True for types that visit_tensors() walks for tensors.
template <class T>
inline constexpr bool kHoldsTensors = detail::holds_tensors<T>();

namespace detail {
template <class T>
consteval bool is_plain();
}  // namespace detail

/// True for types that hold no tensors: numbers, enums, empty types, structs that are copied byte by byte (which a
/// Tensor is not), containers of and pointers to such types. A specialization declares that another class holds no
/// tensors:
///   template <> inline constexpr bool lockstep::kIsPlain<Config> = true;
template <class T>
inline constexpr bool kIsPlain = detail::is_plain<T>();
template <class T>
inline constexpr bool kIsPlain<std::shared_ptr<T>> = kIsPlain<T*>;
template <class T>
inline constexpr bool kIsPlain<std::weak_ptr<T>> = kIsPlain<T*>;
template <class T, class D>
inline constexpr bool kIsPlain<std::unique_ptr<T, D>> = kIsPlain<T*>;
/// With std::ref, the user says that replicas share a value. The value must not hold tensors that could be split.
template <class T>
inline constexpr bool kIsPlain<std::reference_wrapper<T>> = !kHoldsTensors<T>;

namespace detail {

template <class... T>
consteval bool are_plain(PartTypes<T...>) {
  return (kIsPlain<std::remove_cvref_t<T>> && ...);
}

template <class T>
consteval bool is_plain() {
  if constexpr (std::is_pointer_v<T>)
    return kIsPlain<std::remove_cv_t<std::remove_extent_t<std::remove_pointer_t<T>>>>;
  else if constexpr (std::is_scalar_v<T> || std::is_function_v<T>)
    return true;
  else if constexpr (std::is_void_v<T> || !requires { sizeof(T); })
    return false;
  else if constexpr (std::convertible_to<T, Tensor> || kStructure<T> == Structure::members)
    return false;
  else if constexpr (kStructure<T> != Structure::piece)
    return are_plain(PartsOf<T>());
  else if constexpr (requires { typename T::value_type; })
    return (std::same_as<typename T::value_type, T> || are_plain(PartTypes<typename T::value_type>())) &&
           std::equality_comparable<T>;
  else
    return std::is_empty_v<T> || std::is_trivially_copy_assignable_v<T>;
}

}  // namespace detail

/// True for types in which visit_tensors() finds all tensors: types that it walks, and types that hold no tensors.
template <class T>
inline constexpr bool kHidesNoTensors = kHoldsTensors<T> || kIsPlain<std::remove_cv_t<T>>;

/// Compiles only if visit_tensors() finds all tensors in a Part; else the error names the type.
template <class Part>
constexpr void require_shown_tensors() {
  require_known<Part, kHidesNoTensors<Part>>();
}

namespace detail {
template <class Map, class OnOther>
void visit_keys_that_paths_lack(const Map& map, const MemberPath& at, const OnOther& on_other) {
  using Key = typename Map::key_type;
  if constexpr (kKeyStep<Key> == MemberPath::Step::other_key || std::floating_point<Key>)
    for_each_entry(
        map, [&](const Key& key, const auto&) { on_other(MemberPath(at, MemberPath::Step::other_key, "..."), key); });
}
}  // namespace detail

/// Walks `value`, whose path is `at`, in order. Calls on_tensor(path, tensor) for each tensor; on_other(path, part) for
/// each part without tensors, and for each map key that a path cannot spell; and on_extent(path, size) for each
/// container, before its parts (extent_of).
template <class T, class OnTensor, class OnOther, class OnExtent>
void visit_tensors(T& value, const MemberPath& at, const OnTensor& on_tensor, const OnOther& on_other,
                   const OnExtent& on_extent) {
  if constexpr (std::derived_from<std::remove_const_t<T>, Tensor>) {
    on_tensor(at, value);
  } else if constexpr (!kHoldsTensors<T>) {
    on_other(at, value);
  } else {
    if constexpr (kHasExtent<T>) on_extent(at, extent_of(value));
    if constexpr (kStructure<T> == Structure::map) detail::visit_keys_that_paths_lack(value, at, on_other);
    for_each_part(value, at, [&](auto& part, const MemberPath& path) {
      visit_tensors(part, path, on_tensor, on_other, on_extent);
    });
  }
}

/// Calls visit(path, tensor) for each defined tensor in `value`. Does not compile for a value that may hide tensors.
template <class T, class Visit>
void for_each_tensor(T& value, const MemberPath& at, const Visit& visit) {
  visit_tensors(
      value, at,
      [&](const MemberPath& path, auto& tensor) {
        if (tensor.defined()) visit(path, tensor);
      },
      []<class Part>(const MemberPath&, const Part&) { require_shown_tensors<Part>(); },
      [](const MemberPath&, std::size_t) {});
}

}  // namespace lockstep
