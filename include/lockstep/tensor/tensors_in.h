// The tensors inside a value: a tensor itself, and those in the structures of core/structure.h. scatter splits them,
// gather joins them, and a Trainer moves them.
#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>

#include <lockstep/core/structure.h>
#include <lockstep/tensor/hidden_tensors.h>
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

/// True for types that hide no tensors: types in which tensors are found, and types that hold none. The latter are
/// numbers, enums, texts, empty types, aggregates of these and pointers to these, and types with an operator==, which
/// only plain values have. A reference_wrapper marks values that replicas share; it may refer to any type.
template <class T>
inline constexpr bool kHidesNoTensors = kHoldsTensors<T> ||
                                        detail::hidden_tensors<std::remove_cv_t<T>>() == detail::HiddenTensors::none;

/// Does not compile for a part that may hide tensors.
template <class Part>
constexpr void require_shown_tensors() {
  require_known<Part, kHidesNoTensors<Part>>();
  if constexpr (kHidesNoTensors<Part> && !kHoldsTensors<Part>) detail::require_usable_equality<Part>();
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
