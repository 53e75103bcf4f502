// World: the processes of a job. Each process drives its own devices. The program makes one World at its start, with
// the launcher's library (lockstep/distributed/mpi.h), and passes it to everything that works across processes:
// DataParallel, samplers.
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

/// A strongly typed number from 0: a rank of one kind does not convert to another kind.
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

/// A process's number in the job.
using ProcessRank = Rank<struct ProcessKind>;
/// A device's number among the devices of all processes: process 0's devices first, in their order, then process 1's.
using DeviceRank = Rank<struct DeviceKind>;

/// The processes of a job: a handle, cheap to copy. all_gather(), broadcast(), barrier(), agree() and throw_on_all()
/// are collective: all processes must call them in the same order, each from one thread at a time. Such a call waits on
/// the host until all processes have made it, at most for the time limit. If a process does not make it, or makes
/// another one (with another `what`), a CollectiveError names that process, its host and the call. All later calls
/// throw the same error. Safe from any thread.
class LOCKSTEP_API World {
 public:
  /// The world of this process alone.
  World() noexcept = default;
  /// Made by launchers' libraries, such as mpi::join().
  explicit World(std::shared_ptr<Transport> transport);

  ProcessRank rank() const noexcept;  ///< This process's rank.
  int size() const noexcept;
  bool is_first() const noexcept { return rank() == ProcessRank(); }  ///< True for process 0.
  /// The name of the host on which a process runs.
  const std::string& host(ProcessRank process) const;
  /// The longest wait for another process.
  std::chrono::milliseconds time_limit() const noexcept;

  /// Returns the bytes that each process passed, by rank. The processes may pass different numbers of bytes.
  std::vector<std::string> all_gather(const std::string& mine, const char* what = "all_gather") const;
  /// Returns the value that each process passed, by rank.
  std::vector<std::int64_t> all_gather(std::int64_t mine, const char* what = "all_gather") const;
  /// Returns, in every process, the bytes that process 0 passed.
  std::string broadcast(const std::string& mine, const char* what = "broadcast") const;
  /// Returns after all processes have called it.
  void barrier(const char* what = "barrier") const;

  /// Checks the bytes that each process passed, by rank. The result must depend on these bytes only, so that the check
  /// throws in all processes or in none.
  using Check = std::function<void(const std::vector<std::string>& of_each)>;
  /// Calls all_gather(), then `check`. If `check` throws, rethrows its error after every other process has the same
  /// error, so that no process sees another one end before it knows why. The world stays usable.
  std::vector<std::string> agree(const std::string& mine, const char* what, const Check& check) const;
  /// Throws `error`, as agree() throws the error of its check. All processes must call this, so they must all know the
  /// facts from which the error follows.
  [[noreturn]] void throw_on_all(const std::exception_ptr& error) const;
  /// Returns true if `error` is the last error that agree() or throw_on_all() threw. All processes have thrown it, so
  /// none waits.
  bool was_thrown_on_all(const std::exception_ptr& error) const noexcept;

  /// Null for a world of one process.
  const std::shared_ptr<Transport>& transport() const noexcept { return transport_; }

 private:
  std::shared_ptr<Transport> transport_;
};

}  // namespace lockstep
