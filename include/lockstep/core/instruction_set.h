// The vector instructions that kernels on the host use, chosen when the program runs.
#pragma once

#include <cstdint>

#include <lockstep/core/export.h>

namespace lockstep {

/// The instruction sets that host kernels are compiled for. plain: the instructions that the library is built for
/// (-march, see LOCKSTEP_ARCH). avx2: x86-64 with AVX2, FMA and F16C (Haswell, Zen). avx512: also AVX-512 F, BW, CD, DQ
/// and VL (Skylake-X, Zen 4).
enum class InstructionSet : std::uint8_t { plain, avx2, avx512 };

/// The best set that this processor has, or the one that the environment variable LOCKSTEP_CPU names: plain, avx2 or
/// avx512. oneDNN is limited to the same set. The last bits of results may depend on the set. Throws InvalidArgument
/// for another name, and for a set that this processor or this build does not have.
LOCKSTEP_API InstructionSet instruction_set();

}  // namespace lockstep
