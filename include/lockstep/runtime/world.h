// World: the processes of a job, of which each drives devices of its own. One World is made where the program begins,
// by whoever knows the launcher (lockstep/runtime/mpi.h), and given to what works over all of them: DataParallel,
// samplers.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <lockstep/core/export.h>

namespace lockstep {

class Transport;

/// A number from 0 that counts one kind of thing, and is none of another kind.
template <class Kind>
class Rank {
 public:
  constexpr Rank() = default;
  constexpr explicit Rank(int value) noexcept : value_(value) {}  ///< Unchecked.
  constexpr int value() const noexcept { return value_; }         ///< From 0.
  constexpr auto operator<=>(const Rank&) const noexcept = default;

 private:
  int value_ = 0;
};

/// Of a process among those of the job.
using ProcessRank = Rank<struct ProcessKind>;
/// Of a device among those of all processes: those of process 0 first, in their order, then those of process 1.
using DeviceRank = Rank<struct DeviceKind>;

/// A handle, cheap to copy. What all processes do together they do in one order, each from one thread at a time: then
/// it waits on the host until all have come, for the time limit at the longest. CollectiveError names who did not come,
/// its host and what was waited for, or who came to something else (`what` differs); all that follows throws it too.
/// Any thread.
class LOCKSTEP_API World {
 public:
  /// This process alone.
  World() noexcept = default;
  /// For launchers.
  explicit World(std::shared_ptr<Transport> transport);

  ProcessRank rank() const noexcept;  ///< Of this process.
  int size() const noexcept;
  bool is_first() const noexcept { return rank() == ProcessRank(); }  ///< Whether this is process 0.
  /// The name of the host on which a process runs.
  const std::string& host(ProcessRank process) const;
  /// How long anything waits for another process.
  std::chrono::milliseconds time_limit() const noexcept;

  /// What each process gave, by rank: bytes of any number.
  std::vector<std::string> all_gather(const std::string& mine, const char* what = "all_gather") const;
  /// What each gave, by rank.
  std::vector<std::int64_t> all_gather(std::int64_t mine, const char* what = "all_gather") const;
  /// What process 0 gave, for all.
  std::string from_first(const std::string& mine, const char* what = "from_first") const;
  /// Returns when all have come.
  void barrier(const char* what = "barrier") const;

  /// Looks at what each process gave, by rank, and at nothing else: so it throws in all processes, or in none.
  using Check = std::function<void(const std::vector<std::string>& of_each)>;
  /// As all_gather(), and then `check`. Where it throws, this throws the same when every other process has come to its
  /// own error: none hears that another has ended before it knows why. The world lives on.
  std::vector<std::string> agree(const std::string& mine, const char* what, const Check& check) const;
  /// So agree() throws. For an error that follows from what all processes know, so that all come to it.
  [[noreturn]] void throw_together(const std::exception_ptr& error) const;
  /// Whether it is the last error that agree() or throw_together() threw: no process waits for one that threw it.
  bool all_threw(const std::exception_ptr& error) const noexcept;

  /// Null for a process alone.
  const std::shared_ptr<Transport>& transport() const noexcept { return transport_; }

 private:
  std::shared_ptr<Transport> transport_;
};

}  // namespace lockstep
