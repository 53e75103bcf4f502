// A job of several processes, on one host or many, that mpirun or srun starts. A separate library, the CMake target
// lockstep::mpi: docs/many-hosts.md.
#pragma once

#include <chrono>

#include <lockstep/core/export.h>
#include <lockstep/distributed/world.h>

namespace lockstep::mpi {

struct JoinOptions {
  /// The longest wait for another process. The environment variable LOCKSTEP_TIME_LIMIT, in seconds, overrides it.
  std::chrono::milliseconds time_limit = std::chrono::seconds(30);
};

/// Returns the world of all processes of the job, or World() if no launcher started the program. Every process calls
/// this before any other call that needs several processes; the call waits for all of them. Later calls return the same
/// World while a handle to it exists.
///
/// A separate thread calls MPI, from MPI_Init_thread to MPI_Finalize (unless the program has called MPI_Init_thread
/// itself). The process leaves the job when the last handle is destroyed, or in exit(), and waits there until all
/// others leave, too.
///
/// Throws InvalidArgument, in every process, if the job was started wrongly: the message names the variable, or the
/// difference between two processes. Throws BackendError if MPI does not grant MPI_THREAD_MULTIPLE, and CollectiveError
/// if a process does not join within the time limit (but at least 30 s). After this call, a process that dies, hangs or
/// leaves early fails the other processes' waits with a CollectiveError. If the program has no handler for SIGTERM,
/// SIGTERM ends the process up to half a second later: the process first finds out which process was lost, and reports
/// it on stderr.
LOCKSTEP_API World join(const JoinOptions& options = {});

}  // namespace lockstep::mpi
