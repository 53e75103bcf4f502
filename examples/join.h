// Joins the processes that a launcher started, for examples that may run under mpirun or srun. Returns a world of one
// process if Lockstep was built without MPI.
#pragma once

#include <lockstep/distributed/world.h>
#ifdef LOCKSTEP_EXAMPLES_MPI
#include <lockstep/distributed/mpi.h>
#endif

inline lockstep::World join() {
#ifdef LOCKSTEP_EXAMPLES_MPI
  return lockstep::mpi::join();
#else
  return {};
#endif
}
