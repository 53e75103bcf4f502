// What a program does to a model that several processes train: a line for each setting of each call that all processes
// have to make alike. They are compared with a hash of eight bytes in an exchange that there is anyway, and as text
// where the hashes differ. Any thread.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>

#include <lockstep/runtime/world.h>

#include "core/ranked_mutex.h"

namespace lockstep {

class CallLog {
 public:
  explicit CallLog(World world) : world_(std::move(world)) {}

  /// Notes a call: lines that end in '\n'. Two threads may make theirs in either order.
  void add(std::string call);
  /// Of what was noted since the last comparison.
  std::uint64_t hash() const;
  /// Forgets it: all have the same hash.
  void clear();
  /// By all processes: throws InvalidArgument in all of them, which begins with `expected` and names what differs. What
  /// was noted is forgotten.
  void compare(std::string_view expected, const char* what);

 private:
  std::string all() const;

  const World world_;
  mutable RankedMutex<LockRank::transport> mutex_;
  std::deque<std::string> calls_;  // the last ones
  std::uint64_t hash_ = 0;         // the sum of those of all calls
};

}  // namespace lockstep
