// Whether an object is still there, for whoever keeps a pointer to it and does not own it.
#pragma once

#include <memory>

#include <lockstep/core/export.h>

namespace lockstep::detail {

/// A member of the object. A copy of the object is another one, with a life of its own.
class LOCKSTEP_API Lifetime {
 public:
  Lifetime() = default;
  Lifetime(const Lifetime&) noexcept {}
  Lifetime& operator=(const Lifetime&) noexcept { return *this; }

  /// Expires with the object. Safe from any thread.
  std::weak_ptr<const void> watch() const;

 private:
  mutable std::shared_ptr<const void> token_;  // made when somebody watches
};

}  // namespace lockstep::detail
