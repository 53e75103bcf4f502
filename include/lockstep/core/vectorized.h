// Loops that are compiled for several instruction sets; the running processor's is chosen at run time.
#pragma once

#include <lockstep/core/instruction_set.h>

// One body is compiled for several instruction sets, by GCC and by clang. Builds without optimization, with a sanitizer
// or with an emulated GPU do not, because they would not gain by it.
#if defined(__x86_64__) && defined(__GNUC__) && defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__) && !defined(LOCKSTEP_CUDA_EMULATED)
#define LOCKSTEP_INSTRUCTION_SETS 1
#endif

/// Before a loop whose iterations are independent, so that the compiler need not compare the addresses of its operands.
/// (Clang compares them: its pragma of that meaning warns about each loop that it cannot vectorize.)
#ifdef __clang__
#define LOCKSTEP_IVDEP
#else
#define LOCKSTEP_IVDEP _Pragma("GCC ivdep")
#endif

namespace lockstep {

#ifdef LOCKSTEP_INSTRUCTION_SETS
namespace detail {
#define LOCKSTEP_AVX2 "avx2,fma,f16c,bmi,bmi2,lzcnt"
#define LOCKSTEP_AVX512 LOCKSTEP_AVX2 ",avx512f,avx512bw,avx512cd,avx512dq,avx512vl"
#ifdef __clang__  // its vectors are as wide as the instructions
#define LOCKSTEP_VECTOR_WIDTH(bits)
#else
#define LOCKSTEP_VECTOR_WIDTH(bits) ",prefer-vector-width=" #bits
#endif
// gnu::flatten inlines the functions that the body calls, so that they are compiled for these instructions too. (GCC
// inlines what these call as well, clang only what is marked: LOCKSTEP_HD. A function that is not inlined still runs,
// as plain code.)
template <class Body>
[[ gnu::target(LOCKSTEP_AVX2 LOCKSTEP_VECTOR_WIDTH(256)), gnu::flatten, gnu::noinline ]] void with_avx2(
    const Body& body) {
  body();
}
template <class Body>
[[ gnu::target(LOCKSTEP_AVX512 LOCKSTEP_VECTOR_WIDTH(512)), gnu::flatten, gnu::noinline ]] void with_avx512(
    const Body& body) {
  body();
}
#undef LOCKSTEP_AVX2
#undef LOCKSTEP_AVX512
#undef LOCKSTEP_VECTOR_WIDTH
}  // namespace detail
#endif

/// Calls body(), compiled for instruction_set(). For loops over elements: the compiler vectorizes a loop whose
/// iterations are independent (LOCKSTEP_IVDEP). If several sets are compiled and instruction_set() is plain, calls
/// plain() instead, so that a caller that already has plain code does not compile it twice.
template <class Body, class Plain>
void vectorized(const Body& body, [[maybe_unused]] const Plain& plain) {
#ifdef LOCKSTEP_INSTRUCTION_SETS
  switch (instruction_set()) {
    case InstructionSet::avx512: return detail::with_avx512(body);
    case InstructionSet::avx2: return detail::with_avx2(body);
    case InstructionSet::plain: return plain();
  }
#else
  body();
#endif
}

/// Calls body(), compiled for instruction_set(), plain included.
template <class Body>
void vectorized(const Body& body) {
  vectorized(body, body);
}

}  // namespace lockstep
