# A browser (Chromium) opens the report that PROGRAM (train_tests) writes, without a network: its script draws every curve
# and the timeline, and meets no error. Says "interop: SKIPPED" where there is no browser.
find_program(BROWSER NAMES chromium chromium-browser google-chrome)
if(NOT BROWSER)
  message("interop: SKIPPED: there is no Chromium (on Debian: apt-get install chromium)")
  return()
endif()
set(files ${BUILD_DIR}/files)
file(REMOVE_RECURSE ${BUILD_DIR})
file(MAKE_DIRECTORY ${files})
set(ENV{LOCKSTEP_INTEROP_FOLDER} ${files})
execute_process(COMMAND ${PROGRAM} --gtest_brief=1 --gtest_filter=Report.ShowsARunOfTwoDevices
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${BROWSER} --headless=new --no-sandbox --disable-gpu --enable-logging=stderr --window-size=1400,2000
                        --user-data-dir=${BUILD_DIR}/profile --host-resolver-rules=MAP\ *\ ~NOTFOUND
                        --dump-dom file://${files}/run.html
                OUTPUT_VARIABLE page ERROR_VARIABLE log TIMEOUT 120 RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "expected ${BROWSER} to open the report, got ${failed}: ${log}")
endif()
if(log MATCHES "CONSOLE[^\n]*")
  message(FATAL_ERROR "expected no message of the browser, got ${CMAKE_MATCH_0}")
endif()
string(REGEX MATCHALL "<path d=\"M[^\"]*L[^\"]*\" fill=\"none\" stroke=\"#" curves "${page}")
string(REGEX MATCHALL "<rect x=" operations "${page}")
list(LENGTH curves curves)
list(LENGTH operations operations)
if(NOT curves EQUAL 5 OR operations LESS 1000)
  message(FATAL_ERROR "expected 5 curves (loss and rmse, each of training and validation, and lr) and over 1000 operations, "
                      "got ${curves} and ${operations}")
endif()
message("interop: ${BROWSER} draws ${curves} curves and ${operations} operations")
