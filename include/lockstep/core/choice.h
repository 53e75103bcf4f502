// Options that PyTorch takes as strings. Lockstep takes an enumerator or the name of one:
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

/// Specialized for each E: `kOption` is the option's name in errors; `kNames[i]` is the name of the enumerator with the
/// value i.
template <class E>
struct ChoiceNames;

namespace detail {
/// The index of `got` in `names`. If `got` is not among them, throws an InvalidArgument that lists the names.
LOCKSTEP_API std::size_t find_choice(const char* option, std::span<const std::string_view> names, std::string_view got);
}  // namespace detail

/// An option of type E: made from an enumerator of E or from the enumerator's name.
template <class E>
class Choice {
 public:
  constexpr Choice(E value) noexcept : value_(value) {}  ///< The enumerator `value`.
  /// Throws InvalidArgument unless `name` is the name of an enumerator.
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
