# Builds the fuzzer of NAME with the preset fuzz, in BUILD_DIR, with the library of the build folder ARCHIVES, and runs it
# for DURATION seconds from the files in SEEDS.
# Says "fuzz: SKIPPED" where clang++ or libFuzzer is missing.
find_program(CLANG NAMES clang++ clang++-19 clang++-18 clang++-17 clang++-16 clang++-15 clang++-14)
if(NOT CLANG)
  message("fuzz: SKIPPED: there is no clang++ (on Debian: apt-get install clang libclang-rt-dev)")
  return()
endif()
file(MAKE_DIRECTORY ${BUILD_DIR})
file(WRITE ${BUILD_DIR}/probe.cpp "extern \"C\" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }\n")
execute_process(COMMAND ${CLANG} -fsanitize=fuzzer,address,undefined ${BUILD_DIR}/probe.cpp -o ${BUILD_DIR}/probe
                RESULT_VARIABLE missing OUTPUT_QUIET ERROR_QUIET)
if(missing)
  message("fuzz: SKIPPED: ${CLANG} has no libFuzzer (on Debian: apt-get install libclang-rt-dev)")
  return()
endif()

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(failed)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${output}\nfuzz: failed: ${command}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

run(${CMAKE_COMMAND} --preset fuzz -S ${SOURCE_DIR} -B ${BUILD_DIR} -DCMAKE_CXX_COMPILER=${CLANG}
    -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} -DLOCKSTEP_ARCHIVES=${ARCHIVES})
run(${CMAKE_COMMAND} --build ${BUILD_DIR} --target ${NAME})
file(MAKE_DIRECTORY ${BUILD_DIR}/corpus_${NAME})
run(${BUILD_DIR}/tests/fuzz/${NAME} -max_total_time=${DURATION} -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=256
    -artifact_prefix=${BUILD_DIR}/ -dict=${DICTIONARY} ${BUILD_DIR}/corpus_${NAME} ${SEEDS})
string(REGEX MATCH "Done [0-9]+ runs in [0-9]+ second" done "${output}")
message("fuzz: ${NAME}: ${done}(s), no finding")
