// The vector instructions that kernels on the host use, chosen when the program runs.
#pragma once

#include <cstdint>

#include <lockstep/core/export.h>

namespace lockstep {

/// What kernels are compiled for: the processor that the library is built for, x86-64 with AVX2, FMA and F16C
/// (Haswell, Zen), or with AVX-512 F, BW, CD, DQ and VL (Skylake-X, Zen 4).
enum class InstructionSet : std::uint8_t { plain, avx2, avx512 };

/// The best one that this processor has, or the one named by the environment variable LOCKSTEP_CPU: plain, avx2 or
/// avx512, which holds for oneDNN, too. The last bits of results may depend on it. Throws InvalidArgument for another
/// name, and for a set that this processor or this build has not.
LOCKSTEP_API InstructionSet instruction_set();

}  // namespace lockstep
