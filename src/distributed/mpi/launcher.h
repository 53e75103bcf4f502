// Reads ranks and sizes from launchers' environment variables, and compares them with MPI's.
#pragma once

#include <string_view>
#include <vector>

#include "distributed/mpi/attributes.h"

namespace lockstep::mpi {

/// Returns true if a launcher passes ranks or sizes in this variable.
bool is_of_launcher(std::string_view variable);

/// Returns true if a launcher started this process so that MPI_Init can find the other processes. Throws
/// InvalidArgument if a launcher announces several processes that MPI_Init could not find.
bool is_launched(const Attributes& own);

/// Throws InvalidArgument if a launcher's ranks or sizes differ from MPI's.
void refuse_other_processes(const std::vector<Attributes>& by_rank);

}  // namespace lockstep::mpi
