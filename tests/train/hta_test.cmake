# PyTorch's Holistic Trace Analysis, from PyPI, reads the traces that LOCKSTEP_TRACE=folder/ brings of PROGRAM
# (train_tests). Says "interop: SKIPPED" where there is no Python, or PyPI cannot be reached.
find_program(PYTHON NAMES python3)
if(NOT PYTHON)
  message("interop: SKIPPED: there is no python3")
  return()
endif()
set(packages numpy pandas plotly networkx pydot psutil pyyaml)  # without what only notebooks need: half of the bytes
set(python ${BUILD_DIR}/venv/bin/python)
set(probe "import hta.trace_analysis")
execute_process(COMMAND ${python} -c "${probe}" RESULT_VARIABLE missing OUTPUT_QUIET ERROR_QUIET)
if(missing)
  execute_process(COMMAND ${PYTHON} -m venv ${BUILD_DIR}/venv RESULT_VARIABLE missing OUTPUT_QUIET ERROR_QUIET)
  if(missing)
    message("interop: SKIPPED: ${PYTHON} makes no virtual environment (on Debian: apt-get install python3-venv)")
    return()
  endif()
  execute_process(COMMAND ${python} -m pip install --quiet --retries 1 --timeout 20 --no-deps HolisticTraceAnalysis==0.5.0
                  RESULT_VARIABLE missing OUTPUT_QUIET ERROR_QUIET)
  if(NOT missing)
    execute_process(COMMAND ${python} -m pip install --quiet --retries 1 --timeout 20 ${packages}
                  RESULT_VARIABLE missing OUTPUT_QUIET ERROR_QUIET)
  endif()
  if(missing)
    message("interop: SKIPPED: PyPI is not reachable: pip install HolisticTraceAnalysis==0.5.0 ${packages} failed")
    return()
  endif()
endif()

set(files ${BUILD_DIR}/files)
file(REMOVE_RECURSE ${files})
file(MAKE_DIRECTORY ${files})
set(ENV{LOCKSTEP_INTEROP_FOLDER} ${files})
set(ENV{LOCKSTEP_TRACE} ${files}/trace/)
execute_process(COMMAND ${PROGRAM} --gtest_brief=1 --gtest_filter=Report.ShowsARunOfTwoDevices
                COMMAND_ERROR_IS_FATAL ANY)
unset(ENV{LOCKSTEP_TRACE})
execute_process(COMMAND ${python} ${DATA_DIR}/check_trace.py ${files}/trace COMMAND_ERROR_IS_FATAL ANY)
message("interop: Holistic Trace Analysis reads what Lockstep wrote")
