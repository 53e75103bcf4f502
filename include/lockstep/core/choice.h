// Options that PyTorch spells as text: an enumerator, or its name.
//
//   nn::mse_loss(input, target, {.reduction = "sum"});
//   nn::mse_loss(input, target, {.reduction = Reduction::sum});
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <string_view>

#include <lockstep/core/export.h>

namespace lockstep {

/// The names of the enumerators of E, in their order from 0: `kOption`, the option that errors name, and `kNames`.
template <class E>
struct ChoiceNames;

namespace detail {
/// The place of `got` among the names. Throws InvalidArgument that lists them.
LOCKSTEP_API std::size_t find_choice(const char* option, std::span<const std::string_view> names, std::string_view got);
}  // namespace detail

/// An enumerator of E, which may be given by its name.
template <class E>
class Choice {
 public:
  constexpr Choice(E value) noexcept : value_(value) {}  ///< That enumerator.
  /// Throws InvalidArgument for a name that is none.
  template <std::convertible_to<std::string_view> Name>
  Choice(const Name& name)
      : value_(E(detail::find_choice(ChoiceNames<E>::kOption, ChoiceNames<E>::kNames, std::string_view(name)))) {}

  constexpr operator E() const noexcept { return value_; }  ///< The enumerator.
  friend constexpr bool operator==(Choice a, Choice b) noexcept { return a.value_ == b.value_; }
  friend constexpr bool operator==(Choice a, E b) noexcept { return a.value_ == b; }

 private:
  E value_;
};

}  // namespace lockstep
