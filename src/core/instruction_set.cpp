#include <lockstep/core/instruction_set.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#endif

#include <array>
#include <cstdlib>
#include <string_view>

#include <lockstep/core/error.h>

#include "core/text.h"

namespace lockstep {
namespace {

constexpr std::array<std::string_view, 3> kSetNames = {"plain", "avx2", "avx512"};

#if defined(__x86_64__) && defined(__GNUC__)
// Returns true if the processor has F16C and LZCNT, two names that clang 14's __builtin_cpu_supports() does not know.
// (Intel's manual, CPUID: leaf 1, ECX bit 29; leaf 80000001h, ECX bit 5.)
bool has_f16c_and_lzcnt() {
  unsigned a = 0, b = 0, basic = 0, extended = 0, d = 0;
  return __get_cpuid(1, &a, &b, &basic, &d) && (basic >> 29 & 1) && __get_cpuid(0x80000001, &a, &b, &extended, &d) &&
         (extended >> 5 & 1);
}
#endif

InstructionSet best() {
#if defined(__x86_64__) && defined(__GNUC__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                    __builtin_cpu_supports("bmi2") && has_f16c_and_lzcnt();
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  if (avx2) return avx512 ? InstructionSet::avx512 : InstructionSet::avx2;
#endif
  return InstructionSet::plain;
}

InstructionSet choose() {
  const InstructionSet most = best();
  const char* const choice = std::getenv("LOCKSTEP_CPU");
  if (!choice || !*choice) return most;
  for (std::size_t i = 0; i <= std::size_t(most); ++i)
    if (choice == kSetNames[i]) return InstructionSet(i);
  throw InvalidArgument(text("[LOCKSTEP_CPU] expected plain, avx2 or avx512, and at most ",
                             kSetNames[std::size_t(most)], ", the best set of this processor, got \"", choice, "\""));
}

}  // namespace

InstructionSet instruction_set() {
  static const InstructionSet chosen = choose();
  return chosen;
}

}  // namespace lockstep
