// The mark of a symbol that leaves the library: everything else is hidden.
#pragma once

/// Visible outside of the shared library.
#define LOCKSTEP_API __attribute__((visibility("default")))
