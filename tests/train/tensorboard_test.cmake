# TensorBoard's own reader, from PyPI, reads what PROGRAM (train_tests) writes. Says "interop: SKIPPED" where there is no
# Python, or PyPI cannot be reached.
include(${CMAKE_CURRENT_LIST_DIR}/../support/python.cmake)
find_python_with("import PIL, tensorboard.backend.event_processing.event_accumulator" "tensorboard==2.21.0 pillow")
if(NOT python)
  return()
endif()

set(files ${BUILD_DIR}/files)
file(REMOVE_RECURSE ${files})
file(MAKE_DIRECTORY ${files})
set(ENV{LOCKSTEP_INTEROP_FOLDER} ${files})
execute_process(COMMAND ${PROGRAM} --gtest_brief=1 --gtest_filter=SummaryWriter.WritesRunsForOthers
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${python} ${DATA_DIR}/check_events.py ${files} COMMAND_ERROR_IS_FATAL ANY)
message("interop: TensorBoard reads what Lockstep wrote")
