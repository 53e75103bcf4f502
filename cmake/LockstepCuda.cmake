# What stands behind cuda:*, by the option LOCKSTEP_CUDA:
#   ON        CUDA. An error where nvcc, the CUDA toolkit or the headers of cuBLASLt, cuDNN
#             or NCCL are missing
#   AUTO      ON where a GPU answers and all of them are there, else OFF: kernels take nvcc four times as long as the C++
#             compiler, and nothing could run them
#   OFF       nothing
#   EMULATED  for tests: the same backend and kernels, compiled by the C++ compiler, on cards that tests/cuda emulates on
#             the CPU. OFF where what ON needs is missing, of which it takes the headers, or the CPU is not an x86-64
# Sets LOCKSTEP_WITH_CUDA and LOCKSTEP_WITH_EMULATED_CUDA.
set_property(CACHE LOCKSTEP_CUDA PROPERTY STRINGS AUTO ON OFF EMULATED)
set(LOCKSTEP_WITH_CUDA OFF)
set(LOCKSTEP_WITH_EMULATED_CUDA OFF)
if(LOCKSTEP_CUDA STREQUAL "OFF")
  return()
endif()
if(LOCKSTEP_CUDA STREQUAL "EMULATED" AND NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  message(STATUS "CUDA: off, for it is emulated on x86-64 only")
  return()
endif()

execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader OUTPUT_VARIABLE answer ERROR_QUIET)
string(REGEX MATCHALL "[0-9]+\\.[0-9]" capabilities "${answer}")
if(LOCKSTEP_CUDA STREQUAL "AUTO" AND NOT capabilities)
  message(STATUS "CUDA: off, for no GPU answers nvidia-smi; LOCKSTEP_CUDA=ON builds for one elsewhere")
  return()
endif()

find_program(LOCKSTEP_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
if(LOCKSTEP_NVCC)
  set(CUDAToolkit_NVCC_EXECUTABLE ${LOCKSTEP_NVCC})
  find_package(CUDAToolkit 12 QUIET GLOBAL)  # the first whose nvcc knows C++20
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_path(LOCKSTEP_CUBLASLT_INCLUDE_DIR cublasLt.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_path(CUDNN_INCLUDE_DIR cudnn_graph.h HINTS ${CUDAToolkit_INCLUDE_DIRS})  # of cuDNN 9 or newer
  mark_as_advanced(NCCL_INCLUDE_DIR LOCKSTEP_CUBLASLT_INCLUDE_DIR CUDNN_INCLUDE_DIR)
endif()
if(NOT LOCKSTEP_NVCC OR NOT CUDAToolkit_FOUND OR NOT NCCL_INCLUDE_DIR OR NOT LOCKSTEP_CUBLASLT_INCLUDE_DIR OR
   NOT CUDNN_INCLUDE_DIR)
  if(LOCKSTEP_CUDA STREQUAL "ON")
    message(FATAL_ERROR "LOCKSTEP_CUDA is ON, but not all that it needs is there: nvcc: ${LOCKSTEP_NVCC}, of CUDA "
                        "${CUDAToolkit_VERSION} (12 or newer is needed), nccl.h: ${NCCL_INCLUDE_DIR}, cublasLt.h: "
                        "${LOCKSTEP_CUBLASLT_INCLUDE_DIR}, cudnn_graph.h: ${CUDNN_INCLUDE_DIR}. Put nvcc on the PATH, or "
                        "set LOCKSTEP_NVCC; set NCCL_INCLUDE_DIR and CUDNN_INCLUDE_DIR")
  endif()
  message(STATUS "CUDA: off, for nvcc 12 or newer, cublasLt.h, cudnn_graph.h or nccl.h was not found")
  return()
endif()

if(LOCKSTEP_CUDA STREQUAL "EMULATED")
  set(LOCKSTEP_WITH_EMULATED_CUDA ON)
  message(STATUS "CUDA: emulated, with the headers of ${CUDAToolkit_VERSION}")
  return()
endif()

set(LOCKSTEP_WITH_CUDA ON)
message(STATUS "CUDA: on, ${CUDAToolkit_VERSION}")
set(CMAKE_CUDA_COMPILER ${LOCKSTEP_NVCC})
set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)  # those of the GPUs here; else one
  string(REPLACE "." "" CMAKE_CUDA_ARCHITECTURES "${capabilities}")
  list(REMOVE_DUPLICATES CMAKE_CUDA_ARCHITECTURES)
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 90)
  endif()
  message(STATUS "CUDA: for compute capability ${CMAKE_CUDA_ARCHITECTURES}")
endif()
if(CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
enable_language(CUDA)
