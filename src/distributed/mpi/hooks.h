// Replaces two reactions of Open MPI 4 to a peer that has died on another host, over TCP:
// 1. It reports to mpirun and waits for the answer (btl_tcp_endpoint.c calls opal_show_help). But mpirun sleeps for a
//    second or more when it ends a job.
// 2. It ends the process and names nobody (the PML ob1 calls ompi_rte_abort, which calls orte_ess.abort, and that
//    _exit). Both are called through function pointers, which Hooks replaces while it exists.
#pragma once

#include <functional>

namespace lockstep::mpi {

class Hooks {
 public:
  /// MPI calls these with its locks held, from within a call of the thread that created the Hooks.
  struct Functions {
    std::function<void()> lost_connection;  ///< A peer may have died. If it returns, MPI goes on.
    std::function<void()> abort;            ///< Does not return.
  };

  /// Call this after MPI_Init; one at a time. Does nothing with other MPI libraries.
  explicit Hooks(Functions functions);
  ~Hooks();
  Hooks(const Hooks&) = delete;
  Hooks& operator=(const Hooks&) = delete;

 private:
  const Functions functions_;
};

}  // namespace lockstep::mpi
