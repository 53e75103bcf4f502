// Marks the symbols that the shared library exports; all others are hidden.
#pragma once

/// Exported from the shared library.
#define LOCKSTEP_API __attribute__((visibility("default")))
