// Loops that are compiled for several instruction sets. At run time, instruction_set() chooses among these versions.
#pragma once

#include <concepts>

#include <lockstep/core/instruction_set.h>

// GCC and clang compile one body for several instruction sets. Builds without optimization, with a sanitizer or with an
// emulated GPU compile it once, because they would not gain by more.
#if defined(__x86_64__) && defined(__GNUC__) && defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__) && !defined(LOCKSTEP_CUDA_EMULATED)
#define LOCKSTEP_INSTRUCTION_SETS 1
#endif

/// Stands before a loop whose iterations are independent, so that the compiled code need not compare the addresses of
/// its operands. Clang's pragma also warns about a loop that cannot be vectorized. So a user's kernel compiled by clang
/// gets the pragma only if -Wno-pass-failed and LOCKSTEP_NO_PASS_FAILED are given, as for the library. (Without the
/// pragma, in-place operations run as scalar code.)
#ifndef __clang__
#define LOCKSTEP_IVDEP _Pragma("GCC ivdep")
#elif defined(LOCKSTEP_NO_PASS_FAILED)
#define LOCKSTEP_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#define LOCKSTEP_IVDEP
#endif

/// Stands before a short loop of constant length that should become one vector operation: otherwise clang would unroll
/// the loop before it vectorizes.
#ifdef __clang__
#define LOCKSTEP_NO_UNROLL _Pragma("clang loop unroll(disable)")
#else
#define LOCKSTEP_NO_UNROLL
#endif

/// Marks a large function or lambda that a body of vectorized() calls on the host. Clang then inlines it, so that it is
/// compiled for the body's instructions. (GCC does so without the mark. Functions that also run on GPUs are marked
/// LOCKSTEP_HD instead.)
#if defined(__clang__) && defined(LOCKSTEP_INSTRUCTION_SETS) && !defined(__CUDACC__)
#define LOCKSTEP_INLINE __attribute__((always_inline))
#else
#define LOCKSTEP_INLINE
#endif

namespace lockstep {

#ifdef LOCKSTEP_INSTRUCTION_SETS
namespace detail {
#define LOCKSTEP_AVX2 "avx2,fma,f16c,bmi,bmi2,lzcnt"
#define LOCKSTEP_AVX512 LOCKSTEP_AVX2 ",avx512f,avx512bw,avx512cd,avx512dq,avx512vl"
#ifdef __clang__  // clang uses the full vector width of the instruction set without an option
#define LOCKSTEP_VECTOR_WIDTH(bits)
#else
#define LOCKSTEP_VECTOR_WIDTH(bits) ",prefer-vector-width=" #bits
#endif
// gnu::flatten inlines the functions that the body calls, so that they are compiled for these instructions too. (GCC
// also inlines the functions that those call. Clang inlines only functions that are small or marked: LOCKSTEP_HD,
// LOCKSTEP_INLINE. A function that is not inlined still runs, as portable code: compiled without these instructions.)
template <class Body, class... Args>
[[ gnu::target(LOCKSTEP_AVX2 LOCKSTEP_VECTOR_WIDTH(256)), gnu::flatten, gnu::noinline ]] void with_avx2(
    const Body& body, Args... args) {
  body(args...);
}
template <class Body, class... Args>
[[ gnu::target(LOCKSTEP_AVX512 LOCKSTEP_VECTOR_WIDTH(512)), gnu::flatten, gnu::noinline ]] void with_avx512(
    const Body& body, Args... args) {
  body(args...);
}
#undef LOCKSTEP_AVX2
#undef LOCKSTEP_AVX512
#undef LOCKSTEP_VECTOR_WIDTH
}  // namespace detail
#endif

/// Calls body(args...), compiled for instruction_set(). For loops over elements: the compiler vectorizes a loop whose
/// iterations are independent (LOCKSTEP_IVDEP). If `body` is compiled for several sets and instruction_set() is plain,
/// calls plain(args...) instead: a caller that already has portable code (compiled without AVX2) need not compile
/// `body` as portable code too.
template <class Body, class Plain, class... Args>
requires std::invocable<const Plain&, Args...>
void vectorized(const Body& body, [[maybe_unused]] const Plain& plain, Args... args) {
#ifdef LOCKSTEP_INSTRUCTION_SETS
  switch (instruction_set()) {
    case InstructionSet::avx512: return detail::with_avx512(body, args...);
    case InstructionSet::avx2: return detail::with_avx2(body, args...);
    case InstructionSet::plain: return plain(args...);
  }
#else
  body(args...);
#endif
}

/// Calls body(args...), compiled for instruction_set(), plain included.
template <class Body, class... Args>
requires std::invocable<const Body&, Args...>
void vectorized(const Body& body, Args... args) { vectorized(body, body, args...); }

}  // namespace lockstep
