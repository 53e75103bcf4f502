// Classifies the types in which nobody searches for tensors: they hold no tensors, perhaps hold some, or hold some. The
// types of an aggregate's fields are found by trying which values can initialize them.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include <lockstep/core/structure.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep::detail {

/// A type's class is the greatest of its parts' classes.
enum class HiddenTensors : std::uint8_t { none, perhaps, some };

template <class T, class... Around>
consteval HiddenTensors hidden_tensors();

// Placeholders that convert to any field type, or only to types of class `kKnown`. (Not to T itself, which would copy a
// T; and they cannot be copied, so that a std::any does not take the placeholder itself.)
template <class T>
struct AnyField {
  AnyField(const AnyField&) = delete;
  template <class U>
  requires(!std::same_as<U, T>) operator U() const {
    std::terminate();  // never called
  }
};
template <HiddenTensors kKnown, class T, class... Around>
struct FieldWith {
  FieldWith(const FieldWith&) = delete;
  template <class U>
  requires(!std::same_as<U, T> && hidden_tensors<U, T, Around...>() == kKnown) operator U() const {
    std::terminate();  // never called
  }
};
template <class T, std::size_t = 0>
T&& stand_in();

template <class T, std::size_t... I>
consteval bool takes_fields(std::index_sequence<I...>) {
  return requires { T{stand_in<AnyField<T>, I>()...}; };
}
template <class T, std::size_t... I>
consteval bool takes_more(std::index_sequence<I...>) {
  return requires { T{stand_in<AnyField<T>, I>()..., {}}; };
}
template <class T, class Field, std::size_t... I, std::size_t... J>
consteval bool takes_at(std::index_sequence<I...>, std::index_sequence<J...>) {
  return requires { T{stand_in<AnyField<T>, I>()..., stand_in<Field>(), stand_in<AnyField<T>, J>()...}; };
}
template <class T, class Field, std::size_t... I>
consteval bool takes_anywhere(std::index_sequence<I...>) {
  constexpr std::size_t kCount = sizeof...(I);
  return (takes_at<T, Field>(std::make_index_sequence<I>(), std::make_index_sequence<kCount - 1 - I>()) || ...);
}

template <class T, std::size_t kAtMost>
consteval std::size_t field_count() {
  if constexpr (kAtMost == 0)
    return 0;
  else if constexpr (takes_fields<T>(std::make_index_sequence<kAtMost>()))
    return kAtMost;
  else
    return field_count<T, kAtMost - 1>();
}

template <class T, class... Around>
consteval HiddenTensors tensors_in_fields() {
  constexpr std::size_t kTooMany = 24, kCount = field_count<T, kTooMany>();
  using Fields = std::make_index_sequence<kCount>;
  if constexpr (takes_anywhere<T, FieldWith<HiddenTensors::some, T, Around...>>(Fields()))
    return HiddenTensors::some;
  else if constexpr (kCount == 0 || kCount == kTooMany || takes_more<T>(Fields()) ||
                     takes_anywhere<T, FieldWith<HiddenTensors::perhaps, T, Around...>>(Fields()))
    return HiddenTensors::perhaps;
  else
    return HiddenTensors::none;
}

template <class T>
struct Pointee {};
template <class T>
struct Pointee<T*> : std::type_identity<T> {};
template <class T, class D>
struct Pointee<std::unique_ptr<T, D>> : std::type_identity<T> {};
template <class T>
struct Pointee<std::shared_ptr<T>> : std::type_identity<T> {};
template <class T>
struct Pointee<std::weak_ptr<T>> : std::type_identity<T> {};
template <class T>
struct Pointee<std::reference_wrapper<T>> : std::type_identity<T> {};

template <class... Around, class... T>
consteval HiddenTensors tensors_in_parts(PartTypes<T...>) {
  HiddenTensors most = HiddenTensors::none;
  ((most = std::max(most, hidden_tensors<std::remove_cvref_t<T>, Around...>())), ...);
  return most;
}

// Treats types with an operator== as plain values. (The check may instantiate the operator, so types that are known to
// hold tensors are not checked.)
template <class T>
consteval bool is_assumed_plain() {
  return std::is_empty_v<T> || std::equality_comparable<T>;
}

/// `Around`: the types that contain T; one of these inside itself counts as none.
template <class T, class... Around>
consteval HiddenTensors hidden_tensors() {
  using enum HiddenTensors;
  if constexpr ((std::same_as<T, Around> || ...) || std::is_function_v<T>) {
    return none;
  } else if constexpr (requires { typename Pointee<T>::type; }) {
    constexpr auto kThere =
        hidden_tensors<std::remove_cv_t<std::remove_extent_t<typename Pointee<T>::type>>, T, Around...>();
    return std::same_as<T, std::reference_wrapper<typename Pointee<T>::type>> && kThere == perhaps ? none : kThere;
  } else if constexpr (std::is_scalar_v<T>) {
    return none;
  } else if constexpr (std::is_void_v<T> || !requires { sizeof(T); }) {
    return perhaps;
  } else if constexpr (std::derived_from<T, Tensor> || std::convertible_to<T, Tensor> ||
                       kStructure<T> == Structure::members) {
    return some;
  } else if constexpr (kStructure<T> != Structure::piece) {
    return tensors_in_parts<T, Around...>(PartsOf<T>());
  } else if constexpr (requires { typename T::value_type; }) {
    constexpr auto kElement = hidden_tensors<std::remove_cvref_t<typename T::value_type>, T, Around...>();
    if constexpr (kElement != none)
      return kElement;
    else
      return is_assumed_plain<T>() ? none : perhaps;
  } else if constexpr (std::is_aggregate_v<T> && !std::is_empty_v<T> && !std::is_union_v<T>) {
    constexpr auto kFields = tensors_in_fields<T, Around...>();
    if constexpr (kFields != perhaps)
      return kFields;
    else
      return is_assumed_plain<T>() ? none : perhaps;
  } else {
    return is_assumed_plain<T>() ? none : perhaps;
  }
}

/// Does not compile for a type whose operator== is declared but does not compile, such as a defaulted operator over a
/// std::vector<Tensor>. Such an operator does not show that the type is plain.
template <class T>
constexpr void require_usable_equality() {
  if constexpr (
      kStructure<T> == Structure::piece && std::is_class_v<T> && std::equality_comparable<T> && !std::is_empty_v<T> &&
      !requires { typename T::value_type; } && !requires { typename Pointee<T>::type; })
    static_cast<void>([](const T& a, const T& b) -> bool { return a == b; });
}

}  // namespace lockstep::detail
