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

  /// Called by a process that has told why the job failed, before it ends: the others tell meanwhile. (mpirun kills all
  /// others, without the second that it means to wait, as soon as one ends: a SIGCHLD ends its sleep(1) with 0 left.)
  static void let_others_tell() noexcept;

  /// Whether SIGTERM came.
  static bool is_asked() noexcept;
  /// Says why, and ends the process as SIGTERM does.
  [[noreturn]] static void end(const std::string& reason) noexcept;

 private:
  bool handles_ = false;
};

}  // namespace lockstep::mpi
