# Runs an example with arguments that it does not take: it must say how it is used, do nothing, and fail.
#   cmake -DEXAMPLE=name -DPROGRAM=path -DARGUMENTS=list -P refusal_test.cmake
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND ${PROGRAM} ${ARGUMENTS} OUTPUT_VARIABLE output ERROR_VARIABLE errors RESULT_VARIABLE result)
if(NOT result EQUAL 1 OR NOT output STREQUAL "" OR NOT errors MATCHES "^${EXAMPLE}: usage: ${EXAMPLE} ")
  message(FATAL_ERROR "${EXAMPLE} ${ARGUMENTS} ended with ${result}, and printed: ${output}${errors}")
endif()
