# A program that must not compile. SNIPPET's first line says why: "// refused: " and a part of the compiler's error.
#   cmake -DSNIPPET=path.cpp -DCOMPILER=path -DINCLUDE=folder -P refused_test.cmake
cmake_minimum_required(VERSION 3.25)
file(STRINGS ${SNIPPET} first LIMIT_COUNT 1)
if(NOT first MATCHES "^// refused: (.+)$")
  message(FATAL_ERROR "${SNIPPET}:1: expected \"// refused: \" and a part of the compiler's error, got: ${first}")
endif()
set(expected "${CMAKE_MATCH_1}")
set(ENV{LC_ALL} C)  # plain quotes
execute_process(COMMAND ${COMPILER} -std=c++20 -fsyntax-only -I${INCLUDE} ${SNIPPET}
                OUTPUT_VARIABLE output ERROR_VARIABLE errors RESULT_VARIABLE result)
if(result EQUAL 0)
  message(FATAL_ERROR "${SNIPPET} compiles, and must not: ${expected}")
endif()
string(REGEX MATCHALL "error: [^\n]*" reasons "${errors}")
string(FIND "${reasons}" "${expected}" at)
if(at EQUAL -1)
  message(FATAL_ERROR "${SNIPPET} is refused for another reason than \"${expected}\":\n${errors}")
endif()
