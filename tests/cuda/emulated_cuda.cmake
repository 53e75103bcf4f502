# The library for tests of its CUDA half without a GPU: kernels compiled by the C++ compiler, CUDA's libraries replaced by
# those of this folder. Not for use.
set(here ${PROJECT_SOURCE_DIR}/tests/cuda)
file(GLOB emulation CONFIGURE_DEPENDS ${here}/emulation/*.cpp ${here}/fake/*.cpp)
target_sources(lockstep_kernels PRIVATE ${emulation})
set_source_files_properties(${here}/emulation/emulator.cpp ${here}/emulation/fiber.cpp PROPERTIES COMPILE_OPTIONS -O2)
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/backends/cuda/vendor_tables.cpp PROPERTIES HEADER_FILE_ONLY ON)
foreach(target lockstep_kernels lockstep_exact)
  target_compile_definitions(${target} PRIVATE LOCKSTEP_CUDA_EMULATED)
  target_compile_options(${target} PRIVATE -O1)  # they run too seldom to be worth optimizing well
endforeach()
foreach(target lockstep lockstep_kernels lockstep_exact)
  target_include_directories(${target} BEFORE PRIVATE ${here}/emulation/include)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_include_directories(${target} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS} ${NCCL_INCLUDE_DIR}
                             ${CUDNN_INCLUDE_DIR})
endforeach()
