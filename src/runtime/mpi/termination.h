// SIGTERM, by which launchers end the processes of a job when one of them has died. Its handler only takes note, and
// the thread of MPI does the rest. One for a process.
#pragma once

#include <string>

namespace lockstep::mpi {

class Termination {
 public:
  /// Does nothing where the program has said what SIGTERM does.
  Termination();
  ~Termination();
  Termination(const Termination&) = delete;
  Termination& operator=(const Termination&) = delete;

  /// Whether SIGTERM came.
  static bool is_asked() noexcept;
  /// Says why, and ends the process as SIGTERM does.
  [[noreturn]] static void end(const std::string& reason) noexcept;

 private:
  bool handles_ = false;
};

}  // namespace lockstep::mpi
