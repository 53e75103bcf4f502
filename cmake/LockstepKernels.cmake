# lockstep_kernels(<target> [EXACT] <source>...)
#
# Compiles sources of the target that have kernels (docs/extending.md): by nvcc, for the host and for GPUs, where the
# library has CUDA; else by the C++ compiler, as any other source. On the host no product is contracted with a sum.
# EXACT: on GPUs neither, as optimizers need it, whose replicas must not drift apart.
#
# Where the library has CUDA, find_package(lockstep) enables the language CUDA, for the library's architectures where the
# project has not said which. A project that takes the library by add_subdirectory() enables it before. Without nvcc there
# is a warning: such kernels run on the host, and refuse tensors on GPUs.
function(lockstep_kernels target)
  cmake_parse_arguments(PARSE_ARGV 1 given "EXACT" "" "")
  # As the library is compiled (LockstepTarget), though the project's flags say -Ofast or -ffast-math.
  set(options -fno-fast-math -fno-math-errno -fno-trapping-math -ffp-contract=off)
  get_target_property(form lockstep::lockstep LOCKSTEP_KERNELS)
  if(form STREQUAL "CUDA" AND NOT CMAKE_CUDA_COMPILER)
    message(WARNING "lockstep_kernels(${target}): the library has CUDA, and there is no nvcc: these kernels refuse GPUs")
  endif()
  foreach(source IN LISTS given_UNPARSED_ARGUMENTS)
    set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)
    if(form STREQUAL "CUDA" AND CMAKE_CUDA_COMPILER)
      set(nvcc_options -std=c++20 --expt-relaxed-constexpr -diag-suppress=20014,177)
      list(JOIN options "," host_options)
      list(APPEND nvcc_options -Xcompiler=${host_options} $<$<BOOL:${given_EXACT}>:-fmad=false>)
      set_property(SOURCE ${source} PROPERTY LANGUAGE CUDA)
      set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS ${nvcc_options})
    else()
      set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS ${options})
      if(form STREQUAL "EMULATED")  # this project's own tests
        set_property(SOURCE ${source} APPEND PROPERTY COMPILE_DEFINITIONS LOCKSTEP_CUDA_EMULATED)
        set_property(SOURCE ${source} APPEND PROPERTY INCLUDE_DIRECTORIES ${Lockstep_SOURCE_DIR}/tests/cuda/emulation/include
                                                                          ${Lockstep_SOURCE_DIR}/tests)
      endif()
    endif()
  endforeach()
endfunction()
