# oneDNN, and the OpenMP runtime that Debian's build of it uses: its number of threads is set through that. (The package's
# own configuration asks for OpenCL's development files, which Lockstep does not need.) Defines DNNL::DNNL.
find_path(DNNL_INCLUDE_DIR dnnl.hpp)
find_library(DNNL_LIBRARY dnnl)
find_library(DNNL_OPENMP_LIBRARY NAMES gomp libgomp.so.1)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(DNNL REQUIRED_VARS DNNL_LIBRARY DNNL_OPENMP_LIBRARY DNNL_INCLUDE_DIR)
mark_as_advanced(DNNL_INCLUDE_DIR DNNL_LIBRARY DNNL_OPENMP_LIBRARY)
if(DNNL_FOUND AND NOT TARGET DNNL::DNNL)
  add_library(DNNL::DNNL UNKNOWN IMPORTED)
  set_target_properties(DNNL::DNNL PROPERTIES IMPORTED_LOCATION ${DNNL_LIBRARY}
                                              INTERFACE_INCLUDE_DIRECTORIES ${DNNL_INCLUDE_DIR}
                                              INTERFACE_LINK_LIBRARIES ${DNNL_OPENMP_LIBRARY})
endif()
