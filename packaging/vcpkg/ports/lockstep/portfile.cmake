# The sources are those around this port.
cmake_path(SET SOURCE_PATH NORMALIZE "${CURRENT_PORT_DIR}/../../../..")

set(options "")
foreach(feature images mpi cuda)
  string(TOUPPER ${feature} option)
  if(feature IN_LIST FEATURES)
    list(APPEND options -DLOCKSTEP_${option}=ON)
  else()
    list(APPEND options -DLOCKSTEP_${option}=OFF)
  endif()
endforeach()

vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS ${options} -DLOCKSTEP_TESTS=OFF -DLOCKSTEP_EXAMPLES=OFF -DLOCKSTEP_BENCHMARKS=OFF
          -DLOCKSTEP_INSTALL=ON -DLOCKSTEP_WARNINGS_AS_ERRORS=OFF
)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/lockstep)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include")
# It names paths that vcpkg changes.
file(REMOVE "${CURRENT_PACKAGES_DIR}/share/lockstep/lockstep.cps" "${CURRENT_PACKAGES_DIR}/debug/share/lockstep/lockstep.cps")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
