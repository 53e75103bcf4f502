# PyTorch's Holistic Trace Analysis, from PyPI, reads the traces that LOCKSTEP_TRACE=folder/ brings of PROGRAM
# (train_tests). Says "interop: SKIPPED" where there is no Python, or PyPI cannot be reached.
include(${CMAKE_CURRENT_LIST_DIR}/../support/python.cmake)
# Without what only notebooks need: half of the bytes.
find_python_with("import hta.trace_analysis" "--no-deps HolisticTraceAnalysis==0.5.0"
                 "numpy pandas plotly networkx pydot psutil pyyaml")
if(NOT python)
  return()
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
