# For tests in which a Python package from PyPI reads what Lockstep wrote.

# Sets `python` to one that can run PROBE, made by `pip install` with each of the lists of arguments, in a virtual
# environment beside BUILD_DIR that all such tests share. Where that cannot be, says "interop: SKIPPED" and why, and leaves
# `python` empty.
function(find_python_with probe)
  set(python "" PARENT_SCOPE)
  find_program(PYTHON NAMES python3)
  if(NOT PYTHON)
    message("interop: SKIPPED: there is no python3")
    return()
  endif()
  cmake_path(GET BUILD_DIR PARENT_PATH venv)
  string(APPEND venv /venv)
  set(own ${venv}/bin/python)
  file(LOCK ${venv}.lock GUARD FUNCTION)
  execute_process(COMMAND ${own} -c "${probe}" RESULT_VARIABLE missing OUTPUT_QUIET ERROR_QUIET)
  if(missing)
    if(NOT EXISTS ${own})
      execute_process(COMMAND ${PYTHON} -m venv ${venv} RESULT_VARIABLE missing OUTPUT_QUIET ERROR_QUIET)
      if(missing)
        file(REMOVE_RECURSE ${venv})
        message("interop: SKIPPED: ${PYTHON} makes no virtual environment (on Debian: apt-get install python3-venv)")
        return()
      endif()
    endif()
    foreach(packages IN LISTS ARGN)
      separate_arguments(words UNIX_COMMAND "${packages}")
      # What is never imported need not be compiled.
      execute_process(COMMAND ${own} -m pip install --quiet --no-compile --retries 1 --timeout 20 ${words}
                      RESULT_VARIABLE missing OUTPUT_QUIET ERROR_QUIET)
      if(missing)
        message("interop: SKIPPED: PyPI is not reachable: pip install ${packages} failed")
        return()
      endif()
    endforeach()
  endif()
  set(python ${own} PARENT_SCOPE)
endfunction()
