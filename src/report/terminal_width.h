// Width of the terminal behind a file descriptor.
#pragma once

#include <sys/types.h>

namespace lockstep::train {

/// Columns of the terminal that the descriptor refers to; 0 if it is no terminal.
int terminal_width(int file);

/// Columns of the terminal of a launcher such as mpirun, which gives each of its processes a pseudo-terminal whatever
/// its own output is. Asks the same descriptor of the first ancestor process, from `parent` on, that refers to another
/// file. 0 if unknown.
int launcher_terminal_width(int file, pid_t parent);

}  // namespace lockstep::train
