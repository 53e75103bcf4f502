# Runs an example as one job of three processes with two simulated devices each, and checks what it prints.
#   cmake -DEXAMPLE=name -DPROGRAM=path -DMPIRUN=path -P example_test.cmake
cmake_minimum_required(VERSION 3.25)
if(NOT EXISTS "${MPIRUN}")
  message("SKIPPED: no mpirun")
  return()
endif()
execute_process(COMMAND ${MPIRUN} --bind-to none --oversubscribe --allow-run-as-root -n 3 ${PROGRAM} --simulate 2
                OUTPUT_VARIABLE output ERROR_VARIABLE errors RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${EXAMPLE} ended with ${result}: ${errors}")
endif()

# expect(COUNT PATTERN): so many lines are like that.
function(expect count pattern)
  string(REGEX MATCHALL "${pattern}" found "${output}")
  list(LENGTH found got)
  if(NOT got EQUAL count)
    message(FATAL_ERROR "expected ${count} lines like ${pattern}, got ${got} in\n${output}")
  endif()
endfunction()

if(EXAMPLE STREQUAL "random_dataset")
  # Each process has 10 of the 30 rows of a batch; of the last 10, two processes have 4 and one has 2.
  expect(9 "Outside: input size .10, 5. output_size .10, 2.")
  expect(18 "In Model: input size .5, 5. output size .5, 2.")
  expect(2 "Outside: input size .4, 5. output_size .4, 2.")
  expect(1 "Outside: input size .2, 5. output_size .2, 2.")
elseif(EXAMPLE STREQUAL "train_mlp")
  expect(1 "Training on 6 device")
  expect(1 "epoch 15/15, step 300: train_loss 0[.]0")
  expect(1 "saved the model, 15 rows of history")
endif()
