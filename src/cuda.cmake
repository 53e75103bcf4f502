# The library with CUDA: its kernels compiled by nvcc, for the host and for GPUs.
set_source_files_properties(${kernel_sources} PROPERTIES LANGUAGE CUDA)
# 20014: the gradient of a functor, written once for numbers and tensors, calls host code when it is for tensors. What a
# kernel calls is still checked (20011). 177: what only one of the two compilers' branches uses.
set(options -std=c++20 --expt-relaxed-constexpr -diag-suppress=20014,177 -Xcompiler=-Wall,-Wextra)
set_target_properties(lockstep PROPERTIES CUDA_VISIBILITY_PRESET hidden NVCC_OPTIONS "${options}")
if(LOCKSTEP_WARNINGS_AS_ERRORS)
  list(APPEND options -Werror=all-warnings)
endif()
if(LOCKSTEP_ARCH AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(APPEND options -Xcompiler=-march=${LOCKSTEP_ARCH})
endif()
target_compile_options(lockstep PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:${options}>")
# The headers of cuBLASLt and NCCL, and not the libraries, which are loaded on first use (runtime/cuda/vendor_tables.h).
target_include_directories(lockstep SYSTEM PRIVATE ${NCCL_INCLUDE_DIR})
target_link_libraries(lockstep PRIVATE CUDA::cudart_static ${CMAKE_DL_LIBS})
set_source_files_properties(${CMAKE_CURRENT_SOURCE_DIR}/runtime/cuda/vendor_tables.cpp PROPERTIES
                            COMPILE_DEFINITIONS LOCKSTEP_CUDA_LIBRARY_FOLDER="${CUDAToolkit_LIBRARY_DIR}")
