# How every target of this project is compiled. The options are the C++ compiler's; nvcc has its own.
function(lockstep_cxx_options target)
  foreach(option IN LISTS ARGN)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${option}>)
  endforeach()
endfunction()

# Joins sources of one layer into parts that the compiler reads headers for once. That took a third of the processor time
# for src/nn and tests/nn (GCC 12). Layers are not mixed: they may give one name to different things. Where a part is not
# short, a file's own name says whether another begins with it, and gives that its name: a new file changes one part alone.
# Parts of programs are twice as long as those of libraries, which are optimized: what their sources instantiate is mostly
# the same.
function(lockstep_join_sources target)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    set(most_bytes 240000)
    set(begins "^0[0-7]")
  else()
    set(most_bytes 120000)
    set(begins "^0")
  endif()
  math(EXPR short_bytes "${most_bytes} / 4")
  set(last_layer /)
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source OUTPUT_VARIABLE path)
    cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} OUTPUT_VARIABLE name)
    cmake_path(GET name PARENT_PATH folder)
    string(REGEX REPLACE "^((\\.\\./)*[^/]+)/.*" "\\1" layer "${folder}")
    file(SIZE ${path} size)
    string(MD5 hash ${name})
    if(NOT "${layer}" STREQUAL last_layer OR bytes GREATER most_bytes OR (hash MATCHES "${begins}" AND bytes GREATER short_bytes))
      string(MAKE_C_IDENTIFIER ${name} part)
      set(last_layer "${layer}")
      set(bytes 0)
    endif()
    math(EXPR bytes "${bytes} + ${size}")
    set_property(SOURCE ${source} PROPERTY UNITY_GROUP ${part})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# lockstep_precompiled_headers(<group> <target> <header>...): the programs of a group, which have the same options, read
# these headers compiled. Of a program of a hundred lines they are more than half of the time (GCC 12). The first program
# compiles them.
set(CMAKE_PCH_PROLOGUE "")  # warn about templates of these headers
function(lockstep_precompiled_headers group target)
  if(NOT LOCKSTEP_UNITY)
    return()  # each source has to include what it needs
  endif()
  get_property(first GLOBAL PROPERTY LOCKSTEP_PRECOMPILED_${group})
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    set_property(GLOBAL PROPERTY LOCKSTEP_PRECOMPILED_${group} ${target})
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    lockstep_cxx_options(${target} -fpch-preprocess)  # for ccache
  elseif(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")  # for ccache
  endif()
endfunction()

# GCC frees memory from 128 MB on, again and again. To begin at 1 GB takes a seventh less time for a large source, and a
# quarter more memory.
set(lockstep_gcc_memory "")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(lockstep_gcc_memory --param=ggc-min-heapsize=1000000)
endif()

function(lockstep_target target)
  if(LOCKSTEP_UNITY)
    lockstep_join_sources(${target})
  endif()
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF CXX_VISIBILITY_PRESET hidden
                                             VISIBILITY_INLINES_HIDDEN ON POSITION_INDEPENDENT_CODE ON)
  lockstep_cxx_options(${target} ${lockstep_gcc_memory})
  # A program that links the static library with --gc-sections holds only the functions that it uses.
  get_target_property(type ${target} TYPE)
  if(NOT type STREQUAL "EXECUTABLE" AND NOT LOCKSTEP_SANITIZE)
    lockstep_cxx_options(${target} -ffunction-sections -fdata-sections)
  endif()
  # What does not see its declaration does not see LOCKSTEP_API either, and is hidden in a shared library.
  if(NOT type STREQUAL "EXECUTABLE" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    lockstep_cxx_options(${target} -Wmissing-declarations)
  endif()
  # Values are those of the source, though CMAKE_CXX_FLAGS say -ffast-math or -Ofast.
  lockstep_cxx_options(${target} -fno-fast-math)
  # No value changes by these; square roots and comparisons become vector instructions.
  lockstep_cxx_options(${target} -fno-math-errno -fno-trapping-math)
  # A product and a sum are rounded one by one: so an element's bits depend neither on the compiler nor on its neighbours.
  lockstep_cxx_options(${target} -ffp-contract=off)
  lockstep_cxx_options(${target} -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    target_compile_definitions(${target} PRIVATE LOCKSTEP_NO_PASS_FAILED)  # core/vectorized.h
    # Loops that are not vectorized; GCC's pragmas; {8} for a shape of one dimension; what tests expect to throw, and to
    # change nothing.
    lockstep_cxx_options(${target} -Wno-pass-failed -Wno-unknown-pragmas -Wno-braced-scalar-init -Wno-unused-comparison
                         -Wno-self-assign-overloaded)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    lockstep_cxx_options(${target} -Wno-restrict)  # false on std::string (GCC bug 105651)
  endif()
  if(LOCKSTEP_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    lockstep_cxx_options(${target} -Wno-subobject-linkage)  # takes a joined source for a header
  endif()
  if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")  # __FILE__ and sanitizers' reports name no machine's folders; debuggers need them
    lockstep_cxx_options(${target} -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
  endif()
  if(LOCKSTEP_WARNINGS_AS_ERRORS)
    lockstep_cxx_options(${target} -Werror)
  endif()
  if(LOCKSTEP_ARCH)
    lockstep_cxx_options(${target} -march=${LOCKSTEP_ARCH})
  endif()
  if(LOCKSTEP_SANITIZE)
    lockstep_cxx_options(${target} -fsanitize=${LOCKSTEP_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    target_link_options(${target} PRIVATE -fsanitize=${LOCKSTEP_SANITIZE})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")  # which does not define what GCC does
      string(REGEX MATCH "address|thread" sanitizer ${LOCKSTEP_SANITIZE})
      string(TOUPPER __SANITIZE_${sanitizer}__ macro)
      target_compile_definitions(${target} PRIVATE ${macro})
    endif()
  endif()
endfunction()
