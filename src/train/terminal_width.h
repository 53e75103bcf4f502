// Whether somebody watches: the terminal behind a file of this process.
#pragma once

#include <sys/types.h>

namespace lockstep::train {

/// Columns of the terminal that the open file leads to; 0 if it is none.
int terminal_width(int file);

/// The same for a file whose terminal a launcher has made, as mpirun makes one for each of its processes, wherever its
/// own output goes: asks the same file of the first process from `parent` upwards that has another one. 0 where that
/// cannot be told.
int launcher_terminal_width(int file, pid_t parent);

}  // namespace lockstep::train
