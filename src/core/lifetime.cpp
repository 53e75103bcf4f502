#include <lockstep/core/lifetime.h>

#include <mutex>

namespace lockstep::detail {

std::weak_ptr<const void> Lifetime::watch() const {
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  if (!token_) token_ = std::make_shared<char>();
  return token_;
}

}  // namespace lockstep::detail
