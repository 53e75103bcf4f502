# Uses the library as a stranger's project does. WAY is find_package: installs the build in BUILD_DIR into a prefix of
# its own, builds tests/package/consumer against it and runs it; or add_subdirectory: configures the consumer with the
# sources in SOURCE_DIR inside it (which generates its link line; the library itself is not built a second time). MPI: so
# that it uses lockstep::mpi, too, in a program of its own.
set(work ${BUILD_DIR}/package_test/${WAY})
file(REMOVE_RECURSE ${work})
set(configure ${CMAKE_COMMAND} -S ${SOURCE_DIR}/tests/package/consumer -B ${work}/build -G Ninja -DCONSUMER_MPI=${MPI})

if(WAY STREQUAL "add_subdirectory")
  execute_process(COMMAND ${configure} -DLOCKSTEP_SOURCE=${SOURCE_DIR} COMMAND_ERROR_IS_FATAL ANY)
else()
  execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${work}/prefix COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${configure} -DCMAKE_PREFIX_PATH=${work}/prefix COMMAND_ERROR_IS_FATAL ANY)
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
endif()
