// One job of several processes, on one host or many, as mpirun or srun starts them. In a library of its own, the CMake
// target lockstep::mpi: docs/many-hosts.md.
#pragma once

#include <chrono>

#include <lockstep/core/export.h>
#include <lockstep/runtime/world.h>

namespace lockstep::mpi {

struct JoinOptions {
  /// How long anything waits for another process. The environment variable LOCKSTEP_TIME_LIMIT, in seconds, replaces
  /// it.
  std::chrono::milliseconds time_limit = std::chrono::seconds(30);
};

/// The processes that were started together with this one; World() in a program that no launcher has started. To be
/// called by every process, before it does anything with the others; waits for all of them. Called again, it gives the
/// same World as long as one handle is left.
///
/// A thread of its own talks to MPI, from MPI_Init_thread to MPI_Finalize (unless the program has called
/// MPI_Init_thread itself). The process leaves the job when the last handle is destroyed, or by exit(), and waits there
/// until all others leave, too.
///
/// Throws InvalidArgument, in every process, where the job was started wrongly: it names the variable, or what differs
/// between two processes. Throws BackendError where MPI does not grant MPI_THREAD_MULTIPLE, and CollectiveError where
/// not all processes come within the time limit, or 30 s if that is less. From here on a process that dies, hangs or
/// leaves early ends what the others wait for with a CollectiveError. SIGTERM, if the program has no handler of it, ends
/// it as ever, half a second later at most: first it is found out which process was lost, and said on stderr.
LOCKSTEP_API World join(const JoinOptions& options = {});

}  // namespace lockstep::mpi
