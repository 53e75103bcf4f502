// What launchers say of ranks and sizes by environment variables, and whether MPI has found the same.
#pragma once

#include <string_view>
#include <vector>

#include "runtime/mpi/facts.h"

namespace lockstep::mpi {

/// Whether a launcher says its processes' ranks or sizes by this variable.
bool is_of_launcher(std::string_view variable);

/// Whether a launcher has left what MPI_Init finds the other processes by. Throws InvalidArgument where one says that
/// there are several processes, and has left nothing.
bool is_launched(const Facts& own);

/// Throws InvalidArgument where a launcher has started other processes than MPI has found.
void refuse_other_processes(const std::vector<Facts>& by_rank);

}  // namespace lockstep::mpi
