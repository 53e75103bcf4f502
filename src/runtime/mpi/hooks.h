// What Open MPI 4 does by itself where a peer has died on another host, over TCP, and what is done instead.
// 1. It tells mpirun, and waits for mpirun's answer (btl_tcp_endpoint.c calls opal_show_help). But mpirun sleeps for a
//    second or more when it ends a job.
// 2. It ends the process and names nobody (the PML ob1 calls ompi_rte_abort, that calls orte_ess.abort, and that
// _exit). Both are called through pointers, which are other ones while there are Hooks.
#pragma once

#include <functional>

namespace lockstep::mpi {

class Hooks {
 public:
  /// Called by MPI, with its locks held, from a call that the thread which made the Hooks is in.
  struct Functions {
    std::function<void()> lost_connection;  ///< A peer may have died. May return: then MPI goes on.
    std::function<void()> abort;            ///< Does not return.
  };

  /// After MPI_Init; one at a time. Does nothing with another MPI.
  explicit Hooks(Functions functions);
  ~Hooks();
  Hooks(const Hooks&) = delete;
  Hooks& operator=(const Hooks&) = delete;

 private:
  const Functions functions_;
};

}  // namespace lockstep::mpi
