# oneDNN, and the OpenMP runtime if this build of oneDNN uses it: its number of threads is set through that. (The package's
# own configuration asks for OpenCL's development files, which Lockstep does not need.) Defines DNNL::DNNL.
find_path(DNNL_INCLUDE_DIR dnnl.hpp)
find_library(DNNL_LIBRARY dnnl)
set(required DNNL_LIBRARY DNNL_INCLUDE_DIR)
set(openmp "")
if(EXISTS "${DNNL_INCLUDE_DIR}/oneapi/dnnl/dnnl_config.h")
  file(STRINGS "${DNNL_INCLUDE_DIR}/oneapi/dnnl/dnnl_config.h" openmp REGEX "define DNNL_CPU_THREADING_RUNTIME DNNL_RUNTIME_OMP")
endif()
if(openmp)
  find_library(DNNL_OPENMP_LIBRARY NAMES gomp libgomp.so.1)
  list(APPEND required DNNL_OPENMP_LIBRARY)
  mark_as_advanced(DNNL_OPENMP_LIBRARY)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(DNNL REQUIRED_VARS ${required})
mark_as_advanced(DNNL_INCLUDE_DIR DNNL_LIBRARY)
if(DNNL_FOUND AND NOT TARGET DNNL::DNNL)
  add_library(DNNL::DNNL UNKNOWN IMPORTED)
  set_target_properties(DNNL::DNNL PROPERTIES IMPORTED_LOCATION ${DNNL_LIBRARY}
                                              INTERFACE_INCLUDE_DIRECTORIES ${DNNL_INCLUDE_DIR}
                                              INTERFACE_LINK_LIBRARIES "${DNNL_OPENMP_LIBRARY}")
endif()
