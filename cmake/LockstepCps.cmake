# Installs lockstep.cps, which says to tools other than CMake what the package has, where it is and what it needs: a
# file of the Common Package Specification (https://cps-org.github.io/cps/schema.html). Takes `libraries` from
# LockstepPkgConfig.
#
# It lies beside lockstepConfig.cmake, where tools find it with CPS_PATH=<prefix>/lib/cmake. In <prefix>/lib/cps, CMake
# from 4.3 on would prefer it, and then there would be no lockstep_kernels(). The libraries that a static library needs
# are link_libraries, not packages that this one requires, because Debian's have no such file.

# lockstep_cps_component(<result> <target> <requires> <library>...): one component, as JSON.
function(lockstep_cps_component result target requires)
  get_target_property(type ${target} TYPE)
  set(flags "")
  set(names "")
  if(type STREQUAL "STATIC_LIBRARY")
    foreach(library IN LISTS ARGN)
      if(library MATCHES "^-L")
        list(APPEND flags "\"${library}\"")
        continue()
      elseif(NOT library MATCHES "^-")
        lockstep_link_flags(${library} short)  # a name where the linker looks anyway, else the path
      else()
        set(short ${library})
      endif()
      if(short MATCHES "^-l([^:]+)$")
        set(library ${CMAKE_MATCH_1})
      endif()
      list(APPEND names "\"${library}\"")
    endforeach()
  endif()
  list(JOIN flags ", " flags)
  list(JOIN names ", " names)
  string(REPLACE STATIC_LIBRARY archive type ${type})
  string(REPLACE SHARED_LIBRARY dylib type ${type})
  set(prefix "@prefix@")  # the reader knows it
  string(CONFIGURE [=[{
    "type": "${type}",
    "location": "${prefix}/${CMAKE_INSTALL_LIBDIR}/$<TARGET_FILE_NAME:${target}>",
    "includes": {"cpp": ["${prefix}/${CMAKE_INSTALL_INCLUDEDIR}"]},
    "compile_features": ["c++20"],
    "requires": [${requires}],
    "link_languages": ["cpp"],
    "link_flags": [${flags}],
    "link_libraries": [${names}]
  }]=] component)
  set(${result} "${component}" PARENT_SCOPE)
endfunction()

lockstep_cps_component(component lockstep "" ${libraries} -lpthread)
set(components "\"lockstep\": ${component}")
if(LOCKSTEP_WITH_MPI)
  lockstep_cps_component(component lockstep_mpi "\":lockstep\"" ${MPI_CXX_LIBRARIES})
  string(APPEND components ",\n  \"mpi\": ${component}")
endif()
file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/lockstep.cps CONTENT "{
\"cps_version\": \"0.13.0\",
\"name\": \"lockstep\",
\"description\": \"${PROJECT_DESCRIPTION}\",
\"license\": \"Apache-2.0\",
\"version\": \"${PROJECT_VERSION}\",
\"compat_version\": \"${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}.0\",
\"cps_path\": \"@prefix@/${package_dir}\",
\"platform\": {\"isa\": \"${CMAKE_SYSTEM_PROCESSOR}\", \"kernel\": \"${CMAKE_SYSTEM_NAME}\"},
\"default_components\": [\"lockstep\"],
\"components\": {
  ${components}
}
}
")
install(FILES ${PROJECT_BINARY_DIR}/lockstep.cps DESTINATION ${package_dir})
