// The tensors inside a value: a tensor itself, and those in the structures of core/structure.h. What scatter splits,
// gather joins, and a Trainer moves.
#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>

#include <lockstep/core/structure.h>
#include <lockstep/tensor/tensor.h>
#include <lockstep/tensor/tensors_unseen.h>

namespace lockstep {

/// A tensor, and how the user reaches it.
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

/// True for types in which tensors are looked for.
template <class T>
inline constexpr bool kHoldsTensors = detail::holds_tensors<T>();

/// True for types of which it is known where their tensors are: those in which they are looked for, and those that have
/// none, because they are numbers, enums, texts, empty, aggregates or pointers to such, or have an operator==, as only
/// plain values do. A reference_wrapper is for what replicas share: what it refers to need not be known to have none.
template <class T>
inline constexpr bool kShowsTensors = kHoldsTensors<T> ||
                                      detail::tensors_unseen<std::remove_cv_t<T>>() == detail::TensorsUnseen::none;

/// Does not compile for a part that may hide tensors.
template <class Part>
constexpr void require_shown_tensors() {
  require_known<Part, kShowsTensors<Part>>();
  if constexpr (kShowsTensors<Part> && !kHoldsTensors<Part>) detail::require_usable_equality<Part>();
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

/// Calls on_tensor(path, tensor) for each tensor in `value`, which stands at `at`, in order; on_other(path, part) for
/// each part that holds none and each key that its path does not spell; and on_extent(path, size) for each container
/// before its parts (extent_of).
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

/// Calls visit(path, tensor) for each defined tensor in `value`. Does not compile for a value that may hide some.
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
