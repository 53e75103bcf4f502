// Lets the holder of a non-owning pointer check that the object still exists.
#pragma once

#include <memory>

#include <lockstep/core/export.h>

namespace lockstep::detail {

/// A class that others point to has a Lifetime as a member. A copy of the object has a lifetime of its own.
class LOCKSTEP_API Lifetime {
 public:
  Lifetime() = default;
  Lifetime(const Lifetime&) noexcept {}
  Lifetime& operator=(const Lifetime&) noexcept { return *this; }

  /// Returns a weak_ptr that expires with the object. Safe from any thread.
  std::weak_ptr<const void> watch() const;

 private:
  mutable std::shared_ptr<const void> token_;  // created by the first watch()
};

}  // namespace lockstep::detail
