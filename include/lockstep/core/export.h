// Marks the symbols that the shared library exports; all others are hidden. All public headers include this one, so it
// also refuses options that no header can do without.
#pragma once

#ifndef __CUDA_ARCH__  // the pass for the host looks
#ifndef __cpp_exceptions
#error "Lockstep needs exceptions: compile without -fno-exceptions"
#endif
#ifndef __cpp_rtti
#error "Lockstep needs RTTI: compile without -fno-rtti"
#endif
#endif

/// Exported from the shared library.
#define LOCKSTEP_API __attribute__((visibility("default")))
