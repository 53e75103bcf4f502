// Marks the symbols that the shared library exports; all others are hidden. All public headers include this one, so it
// also rejects compilations without exceptions or RTTI, which the headers need.
#pragma once

#ifndef __CUDA_ARCH__  // nvcc checks this in its pass for the host
#ifndef __cpp_exceptions
#error "Lockstep needs exceptions: compile without -fno-exceptions"
#endif
#ifndef __cpp_rtti
#error "Lockstep needs RTTI: compile without -fno-rtti"
#endif
#endif

/// Exported from the shared library.
#define LOCKSTEP_API __attribute__((visibility("default")))
