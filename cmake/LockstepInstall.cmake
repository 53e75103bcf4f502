# Installs the library as a CMake package: find_package(lockstep), target lockstep::lockstep; with COMPONENTS mpi the
# target lockstep::mpi, too. pkg-config finds it as lockstep and lockstep-mpi, readers of the Common Package
# Specification as lockstep:lockstep and lockstep:mpi, and cpack makes a Debian package.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)
install(TARGETS lockstep EXPORT lockstepTargets)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/lockstep DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT lockstepTargets NAMESPACE lockstep:: DESTINATION ${package_dir})
if(LOCKSTEP_WITH_MPI)
  install(TARGETS lockstep_mpi EXPORT lockstepMpiTargets)
  install(EXPORT lockstepMpiTargets NAMESPACE lockstep:: DESTINATION ${package_dir})
endif()

get_target_property(library_type lockstep TYPE)
if(LOCKSTEP_WITH_MPI)
  get_target_property(mpi_library_type lockstep_mpi TYPE)
endif()
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/lockstepConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/lockstepConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/lockstepConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/lockstepConfig.cmake ${PROJECT_BINARY_DIR}/lockstepConfigVersion.cmake
              ${CMAKE_CURRENT_LIST_DIR}/LockstepKernels.cmake ${CMAKE_CURRENT_LIST_DIR}/FindDNNL.cmake
        DESTINATION ${package_dir})
include(LockstepPkgConfig)
include(LockstepCps)
if(PROJECT_IS_TOP_LEVEL)
  include(LockstepDeb)
endif()
