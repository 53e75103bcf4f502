// OptionalRef: an option that refers to an object, such as the schedule of FitOptions.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <type_traits>

#include <lockstep/core/export.h>

namespace lockstep::train {

namespace detail {
template <class T>
inline constexpr bool kNever = false;
[[noreturn]] LOCKSTEP_API void throw_null_reference();
}  // namespace detail

/// Made from an object, which must outlive this, or from a pointer to it; nullptr refers to no object.
template <class T>
class OptionalRef {
 public:
  OptionalRef(std::nullptr_t) noexcept {}
  /// Takes the object or a pointer to it. Other types do not compile, and the error says what to write instead.
  template <class Given>
  requires(!std::same_as<std::remove_cvref_t<Given>, OptionalRef>) OptionalRef(Given&& given)
  noexcept {
    if constexpr (std::convertible_to<Given, T*>)
      object_ = given;
    else if constexpr (std::derived_from<std::remove_reference_t<Given>, T>) {
      static_assert(std::is_lvalue_reference_v<Given>,
                    "an optimizer or schedule is kept by reference, and this temporary would be destroyed before "
                    "training begins: give it a name first, as in optim::StepLR schedule(optimizer, {...}); {.schedule "
                    "= schedule}");
      object_ = std::addressof(given);
    } else if constexpr (requires(const std::remove_cvref_t<Given>& owner) {
                           typename std::remove_cvref_t<Given>::element_type;
                           { owner.get() } -> std::convertible_to<T*>;
                         }) {
      static_assert(detail::kNever<Given>,
                    "an owning pointer is not accepted: keep it, and give the object, as in {.schedule = *schedule}");
    } else {
      static_assert(detail::kNever<Given>,
                    "wrong type for this option: .optimizer takes an optimizer, such as optim::SGD, .schedule a "
                    "schedule, such as optim::StepLR, and .plateau an optim::ReduceLROnPlateau");
    }
  }

  operator T*() const noexcept { return object_; }  ///< Null if it refers to no object.
  operator T&() const { return **this; }            ///< See operator*.
  /// Throws InvalidArgument if it refers to no object.
  T& operator*() const {
    if (!object_) detail::throw_null_reference();
    return *object_;
  }
  T* operator->() const { return &**this; }  ///< See operator*.

 private:
  T* object_ = nullptr;
};

}  // namespace lockstep::train
