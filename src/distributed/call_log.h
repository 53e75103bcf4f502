// CallLog: records the calls on a model that all processes must make in the same way (forward(), an optimizer's step),
// with one line per setting of a call. In each forward pass the processes exchange a hash of their logs, eight bytes
// beside the number of rows; they exchange the texts only if the hashes differ. Safe from any thread.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>

#include <lockstep/distributed/world.h>

#include "core/ranked_mutex.h"

namespace lockstep {

class CallLog {
 public:
  explicit CallLog(World world) : world_(std::move(world)) {}

  /// Notes a call: lines that end in '\n'. Calls of two threads may be noted in either order.
  void add(std::string call);
  /// The hash of the calls noted since the last comparison.
  std::uint64_t hash() const;
  /// Clears the log, after all processes had the same hash.
  void clear();
  /// Called by all processes. If their logs differ, throws InvalidArgument in all of them; the message begins with
  /// `expected` and names the difference. Clears the log.
  void compare(std::string_view expected, const char* what);

 private:
  std::string all() const;

  const World world_;
  mutable RankedMutex<LockRank::transport> mutex_;
  std::deque<std::string> calls_;  // the last calls
  std::uint64_t hash_ = 0;         // the sum of the hashes of all calls
};

}  // namespace lockstep
