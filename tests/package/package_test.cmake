# Uses the library as a stranger's project does.
#   cmake -DWAY=... -DSOURCE_DIR=... -DBUILD_DIR=... -DMPI=ON|OFF -DCOMPILER=... -P package_test.cmake
# WAY is one of
#   find_package      installs the build into a prefix of its own, builds tests/package/consumer against it and runs it
#   add_subdirectory  configures the consumer with the sources inside it (which generates its link line; the library itself
#                     is not built a second time)
#   fetch_content     the same with FetchContent
#   shared            the same as find_package with a shared library, which is linked from the objects of the build, and
#                     with -ffast-math for the consumer
#   deb               the same as find_package with a Debian package of the build, unpacked into a folder
# All others also link a program by what pkg-config says, and look at lockstep.cps and at the library's symbols. MPI: the
# consumer uses lockstep::mpi, too, in a program of its own.
cmake_minimum_required(VERSION 3.25)
set(work ${BUILD_DIR}/package_test/${WAY})
file(REMOVE_RECURSE ${work})
set(consumer ${SOURCE_DIR}/tests/package/consumer)
set(configure ${CMAKE_COMMAND} -S ${consumer} -B ${work}/build -G Ninja -DCMAKE_CXX_COMPILER=${COMPILER} -DCONSUMER_MPI=${MPI})

# What others can see of a library is Lockstep's own, and what every program has of the standard library: no symbol of a
# library that Lockstep uses. A static library is looked at as well, because a shared one may be made of it.
function(expect_own_symbols library)
  execute_process(COMMAND readelf -sW ${library} COMMAND grep -E "(GLOBAL|WEAK|UNIQUE) +DEFAULT +[0-9]+ "
                  OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^ \n]+\n" symbols "${symbols}")
  set(own 0)
  foreach(symbol IN LISTS symbols)
    if(symbol MATCHES "8lockstep")
      math(EXPR own "${own} + 1")
    elseif(NOT symbol MATCHES "^(_Z[A-Z]*(St|9__gnu_cxx)|DW\\.ref)")
      message(FATAL_ERROR "${library} exports a symbol that is not its own: ${symbol}")
    endif()
  endforeach()
  if(own EQUAL 0)
    message(FATAL_ERROR "${library} exports nothing of its own")
  endif()
endfunction()

# A program by what pkg-config says.
function(expect_pkg_config prefix)
  find_program(pkg_config NAMES pkg-config pkgconf)
  if(NOT pkg_config)
    message("package: no pkg-config, so lockstep.pc was not tried")
    return()
  endif()
  file(GLOB_RECURSE file ${prefix}/lockstep.pc)
  cmake_path(GET file PARENT_PATH folder)
  set(flags "")
  foreach(what cflags libs)
    execute_process(COMMAND ${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${folder} ${pkg_config} --${what} lockstep
                    OUTPUT_VARIABLE output OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    separate_arguments(output UNIX_COMMAND "${output}")
    list(APPEND flags ${output})
  endforeach()
  execute_process(COMMAND ${COMPILER} -std=c++20 ${consumer}/devices.cpp -o ${work}/devices ${flags} COMMAND_ERROR_IS_FATAL ANY)
  cmake_path(GET folder PARENT_PATH libraries)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${libraries} ${work}/devices COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# lockstep.cps: it can be read, and what it names is there.
function(expect_cps prefix)
  file(GLOB_RECURSE file ${prefix}/lockstep.cps)
  file(READ ${file} cps)
  string(REPLACE @prefix@ ${prefix} cps "${cps}")
  cmake_path(GET file PARENT_PATH folder)
  string(JSON path GET "${cps}" cps_path)
  if(NOT path STREQUAL folder)
    message(FATAL_ERROR "${file} says that it is in ${path}")
  endif()
  set(components lockstep)
  if(MPI)
    list(APPEND components mpi)
  endif()
  foreach(component IN LISTS components)
    string(JSON feature GET "${cps}" components ${component} compile_features 0)
    string(JSON library GET "${cps}" components ${component} location)
    string(JSON headers GET "${cps}" components ${component} includes cpp 0)
    string(JSON count LENGTH "${cps}" components ${component} link_libraries)
    if(NOT feature STREQUAL "c++20" OR NOT EXISTS ${library} OR NOT EXISTS ${headers}/lockstep/lockstep.h
       OR (library MATCHES "\\.a$" AND count EQUAL 0))
      message(FATAL_ERROR "${component} of ${file}: expected C++20, a library, its headers and what it needs, got\n${cps}")
    endif()
    while(count GREATER 0)
      math(EXPR count "${count} - 1")
      string(JSON needed GET "${cps}" components ${component} link_libraries ${count})
      if(needed MATCHES "/" AND NOT EXISTS ${needed})
        message(FATAL_ERROR "${component} of ${file} needs ${needed}, which does not exist")
      endif()
    endwhile()
  endforeach()
endfunction()

function(expect_consumer prefix)
  execute_process(COMMAND ${configure} -DCMAKE_PREFIX_PATH=${prefix} COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${CMAKE_COMMAND} --build ${work}/build COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${work}/build/consumer COMMAND_ERROR_IS_FATAL ANY)
  file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${work}/build/consumer RESOLVED_DEPENDENCIES_VAR libraries
       UNRESOLVED_DEPENDENCIES_VAR missing)
  if(NOT libraries OR "${libraries};${missing}" MATCHES "libmpi")
    message(FATAL_ERROR "a program without MPI needs ${libraries};${missing}")
  endif()
  if(MPI)
    execute_process(COMMAND ${work}/build/consumer_mpi COMMAND_ERROR_IS_FATAL ANY)
  endif()
  expect_pkg_config(${prefix})
  expect_cps(${prefix})
  file(GLOB_RECURSE libraries ${prefix}/liblockstep*.a ${prefix}/liblockstep*.so)
  if(NOT libraries)
    message(FATAL_ERROR "no library in ${prefix}")
  endif()
  foreach(library IN LISTS libraries)
    expect_own_symbols(${library})
  endforeach()
endfunction()

if(WAY STREQUAL "add_subdirectory")
  execute_process(COMMAND ${configure} -DLOCKSTEP_SOURCE=${SOURCE_DIR} COMMAND_ERROR_IS_FATAL ANY)
elseif(WAY STREQUAL "fetch_content")
  execute_process(COMMAND ${configure} -DFETCHCONTENT_SOURCE_DIR_LOCKSTEP=${SOURCE_DIR} COMMAND_ERROR_IS_FATAL ANY)
elseif(WAY STREQUAL "find_package")
  execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${work}/prefix COMMAND_ERROR_IS_FATAL ANY)
  expect_consumer(${work}/prefix)
elseif(WAY STREQUAL "shared")
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE_DIR} -B ${work}/shared -G Ninja -DCMAKE_CXX_COMPILER=${COMPILER}
                          -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON -DLOCKSTEP_ARCHIVES=${BUILD_DIR} -DLOCKSTEP_CUDA=OFF
                          -DLOCKSTEP_MPI=${MPI} -DLOCKSTEP_TESTS=OFF -DLOCKSTEP_EXAMPLES=OFF -DLOCKSTEP_BENCHMARKS=OFF
                  COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${CMAKE_COMMAND} --build ${work}/shared COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${CMAKE_COMMAND} --install ${work}/shared --prefix ${work}/prefix COMMAND_ERROR_IS_FATAL ANY)
  list(APPEND configure -DCMAKE_CXX_FLAGS=-ffast-math)  # which lockstep_kernels undoes
  expect_consumer(${work}/prefix)
elseif(WAY STREQUAL "deb")
  find_program(dpkg_deb dpkg-deb)
  if(NOT dpkg_deb)
    message("package: SKIPPED, there is no dpkg-deb to unpack a Debian package with")
    return()
  endif()
  execute_process(COMMAND ${CMAKE_CPACK_COMMAND} -G DEB --config ${BUILD_DIR}/CPackConfig.cmake -B ${work}/deb
                  COMMAND_ERROR_IS_FATAL ANY)
  file(GLOB package ${work}/deb/*.deb)
  execute_process(COMMAND ${dpkg_deb} -f ${package} OUTPUT_VARIABLE fields COMMAND_ERROR_IS_FATAL ANY)
  set(version "\\(>= [0-9][^)]*\\)")  # without one, the package of one release could be installed on another
  if(NOT fields MATCHES "Package: liblockstep-dev\n" OR NOT fields MATCHES
     "Depends: libtbb-dev ${version}, libdnnl-dev ${version}, libdnnl-dev \\(<< [0-9]+\\), libstdc\\+\\+6 ${version}, libc6 ${version}")
    message(FATAL_ERROR "expected liblockstep-dev that depends on versions of libraries, got\n${fields}")
  endif()
  execute_process(COMMAND ${dpkg_deb} -x ${package} ${work}/root COMMAND_ERROR_IS_FATAL ANY)
  expect_consumer(${work}/root/usr)
else()
  message(FATAL_ERROR "expected a WAY, got '${WAY}'")
endif()
