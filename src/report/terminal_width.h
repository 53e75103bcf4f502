// Width of the terminal behind a file descriptor.
#pragma once

#include <sys/types.h>

namespace lockstep::train {

/// Columns of the terminal that the descriptor refers to; 0 if it refers to something else.
int terminal_width(int file);

/// Columns of the terminal of a launcher such as mpirun, which gives each of its processes a pseudo-terminal, even if
/// its own output is a file. Looks for the first ancestor process, from `parent` on, whose descriptor of this number
/// refers to another file, and asks that file. 0 if unknown.
int launcher_terminal_width(int file, pid_t parent);

}  // namespace lockstep::train
