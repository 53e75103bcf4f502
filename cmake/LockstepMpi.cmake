# MPI, with which one job of several processes is started (the target lockstep::mpi). LOCKSTEP_MPI=ON asks for it.
set(LOCKSTEP_WITH_MPI OFF)
if(NOT LOCKSTEP_MPI STREQUAL "OFF")
  set(MPI_CXX_SKIP_MPICXX ON)  # the bindings for C are used
  if(LOCKSTEP_MPI STREQUAL "ON")
    find_package(MPI REQUIRED COMPONENTS CXX GLOBAL)
  else()
    find_package(MPI QUIET COMPONENTS CXX GLOBAL)
  endif()
  set(LOCKSTEP_WITH_MPI ${MPI_CXX_FOUND})
endif()
