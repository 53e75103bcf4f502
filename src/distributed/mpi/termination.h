// Termination: the handler of SIGTERM, by which launchers end the processes of a job after one has died. The handler
// only sets a flag; the MPI thread reads it and does the rest. A process makes at most one.
#pragma once

#include <string>

namespace lockstep::mpi {

class Termination {
 public:
  /// Does nothing if the program has its own handler of SIGTERM, or ignores it.
  Termination();
  ~Termination();
  Termination(const Termination&) = delete;
  Termination& operator=(const Termination&) = delete;

  /// A process that has reported why the job failed calls this before it ends, to give the others time to report.
  /// (mpirun kills all others as soon as one ends. It means to wait for a second, but a SIGCHLD interrupts its
  /// sleep(1).)
  static void wait_for_peer_reports() noexcept;

  /// Returns true if SIGTERM has arrived.
  static bool is_requested() noexcept;
  /// Prints the reason, and ends the process as SIGTERM does.
  [[noreturn]] static void end(const std::string& reason) noexcept;

 private:
  bool handles_ = false;
};

}  // namespace lockstep::mpi
