# The library for tests of its CUDA half without a GPU: kernels compiled by the C++ compiler, CUDA's libraries replaced by
# those of this folder. Not for use.
set(here ${PROJECT_SOURCE_DIR}/tests/cuda)
file(GLOB emulation CONFIGURE_DEPENDS ${here}/emulation/*.cpp ${here}/fake/*.cpp)
target_sources(lockstep PRIVATE ${emulation})
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/runtime/cuda/vendor_tables.cpp PROPERTIES HEADER_FILE_ONLY ON)
target_compile_definitions(lockstep PRIVATE LOCKSTEP_CUDA_EMULATED)
# Kernels run too seldom to be worth optimizing well; all else is as in the other builds, so that a compiler cache knows it.
set_property(SOURCE ${kernel_sources} ${emulation} APPEND PROPERTY COMPILE_OPTIONS -O1)
target_include_directories(lockstep BEFORE PRIVATE ${here}/emulation/include)
target_include_directories(lockstep PRIVATE ${PROJECT_SOURCE_DIR}/tests)
target_include_directories(lockstep SYSTEM PUBLIC ${CUDAToolkit_INCLUDE_DIRS} ${NCCL_INCLUDE_DIR})
