# Python's safetensors, from PyPI, reads what PROGRAM (io_tests) writes; and writes the files in DATA_DIR, which PROGRAM
# reads: byte for byte, but for shapes.safetensors, whose metadata come in any order. Says "interop: SKIPPED" where there is no Python, or PyPI cannot be reached.
include(${CMAKE_CURRENT_LIST_DIR}/../support/python.cmake)
find_python_with("import numpy, safetensors" "safetensors==0.8.0 numpy")
if(NOT python)
  return()
endif()

set(files ${BUILD_DIR}/files)
file(REMOVE_RECURSE ${files})
file(MAKE_DIRECTORY ${files})
set(ENV{LOCKSTEP_INTEROP_FOLDER} ${files})
execute_process(COMMAND ${PROGRAM} --gtest_brief=1 --gtest_filter=*WritesFilesForOthers COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${python} ${DATA_DIR}/check_ours.py ${files} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${python} ${DATA_DIR}/make_fixtures.py ${files} COMMAND_ERROR_IS_FATAL ANY)
foreach(name dtypes nothing int16)
  execute_process(COMMAND ${CMAKE_COMMAND} -E compare_files ${files}/${name}.safetensors ${DATA_DIR}/${name}.safetensors
                  COMMAND_ERROR_IS_FATAL ANY)
endforeach()
set(same "
import sys, numpy
from safetensors import safe_open
def content(path):
  with safe_open(path, 'np') as file:
    return file.metadata(), {name: file.get_tensor(name) for name in file.keys()}
(first_texts, first), (second_texts, second) = map(content, sys.argv[1:])
assert first_texts == second_texts and first.keys() == second.keys()
for name in first:
  numpy.testing.assert_array_equal(first[name], second[name], strict=True)")
execute_process(COMMAND ${python} -c "${same}" ${files}/shapes.safetensors ${DATA_DIR}/shapes.safetensors
                COMMAND_ERROR_IS_FATAL ANY)
message("interop: Python reads what Lockstep saved, and saved what Lockstep reads")
