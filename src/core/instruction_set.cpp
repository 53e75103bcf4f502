#include <lockstep/core/instruction_set.h>

#include <array>
#include <cstdlib>
#include <string_view>

#include <lockstep/core/error.h>

#include "core/text.h"

namespace lockstep {
namespace {

constexpr std::array<std::string_view, 3> kSetNames = {"plain", "avx2", "avx512"};

InstructionSet best() {
#if defined(__x86_64__) && defined(__GNUC__) && \
    !defined(__clang__)  // clang compiles only the plain code, and knows fewer names of features
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("lzcnt");
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
  throw InvalidArgument(text("[LOCKSTEP_CPU] expected plain, avx2 or avx512, and no more than this processor has, ",
                             kSetNames[std::size_t(most)], ", got \"", choice, "\""));
}

}  // namespace

InstructionSet instruction_set() {
  static const InstructionSet chosen = choose();
  return chosen;
}

}  // namespace lockstep
