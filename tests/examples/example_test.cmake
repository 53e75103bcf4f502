# Runs an example and checks what it prints.
#   cmake -DEXAMPLE=name -DPROGRAM=path -DDEVICES=n -P example_test.cmake
# ResNet-18 is trained with fewer channels.
cmake_minimum_required(VERSION 3.25)
if(EXAMPLE STREQUAL "resnet")
  set(arguments --width 16 --samples 2000 --epochs 2)
endif()
execute_process(COMMAND ${PROGRAM} --simulate ${DEVICES} ${arguments} OUTPUT_VARIABLE output ERROR_VARIABLE errors RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${EXAMPLE} ended with ${result}: ${errors}")
endif()

# Three batches of 30 and one of 10; each device gets ceil(rows / devices).
function(expect_random_dataset)
  set(expected "")
  if(DEVICES GREATER 1)
    string(APPEND expected "Let's use ${DEVICES} GPUs!\n")
  endif()
  foreach(rows 30 30 30 10)
    math(EXPR length "(${rows} + ${DEVICES} - 1) / ${DEVICES}")
    set(left ${rows})
    while(left GREATER 0)
      if(left LESS length)
        set(length ${left})
      endif()
      string(APPEND expected "\tIn Model: input size [${length}, 5] output size [${length}, 2]\n")
      math(EXPR left "${left} - ${length}")
    endwhile()
    string(APPEND expected "Outside: input size [${rows}, 5] output_size [${rows}, 2]\n")
  endforeach()
  if(NOT output STREQUAL expected)
    message(FATAL_ERROR "expected\n${expected}got\n${output}")
  endif()
endfunction()

# Each line that is not empty in turn, as a regular expression. Brackets are < and >, semicolons are commas.
function(expect_lines)
  string(REPLACE "[" "<" output "${output}")
  string(REPLACE "]" ">" output "${output}")
  string(REPLACE ";" "," output "${output}")
  string(REGEX REPLACE "\n+" ";" lines "${output}")
  foreach(pattern IN LISTS ARGN)
    list(POP_FRONT lines line)
    if(NOT line MATCHES "^${pattern}$")
      message(FATAL_ERROR "expected a line like\n${pattern}\ngot\n${line}\nin\n${output}")
    endif()
  endforeach()
  list(JOIN lines "" rest)
  if(NOT rest STREQUAL "")
    message(FATAL_ERROR "expected no more lines, got\n${rest}")
  endif()
endfunction()

if(EXAMPLE STREQUAL "random_dataset")
  expect_random_dataset()
elseif(EXAMPLE STREQUAL "devices")
  set(number "-?[0-9]\\.[0-9][0-9][0-9][0-9]")
  set(row "<${number}, ${number}, ${number}>")
  set(ones "<1\\., 1\\., 1\\.>")
  expect_lines(
    "cpu cuda:0 cuda:1"
    "2 GPUs, available: true"
    "try_gpu\\(10\\) is cpu, try_all_gpus\\(\\): cuda:0 cuda:1"
    "x = tensor\\(<1, 2, 3>\\), int64 on cpu"
    "X = tensor\\(<${ones},"
    "        ${ones}>, device='cuda:0'\\)"
    "Y = tensor\\(<${row},"
    "        ${row}>, device='cuda:1'\\)"
    "X \\+ Y: <add> expected tensors on one device, got cuda:0 <2, 3> and cuda:1 <2, 3>: move one of them with x\\.to\\(Device::cuda\\(0\\)\\)"
    "Y \\+ Z = tensor\\(<${row},"
    "        ${row}>, device='cuda:1'\\)"
    "Z\\.cuda\\(1\\) is Z: true"
    "x in float64: tensor\\(<1\\., 2\\., 3\\.>, dtype=float64\\)"
    "ones like X: tensor\\(<${ones},"
    "        ${ones}>, device='cuda:0', dtype=float64\\)"
    "net\\(X\\) = tensor\\(<<${number}>,"
    "        <${number}>>, device='cuda:0', grad_fn=<AddmmBackward>\\)"
    "its weight is on cuda:0")
elseif(EXAMPLE STREQUAL "device_info")
  set(size "[0-9]+\\.[0-9] MiB")
  set(rows "\\| cpu +\\| CPU +\\| +${size} \\| +${size} \\| +${size} \\|")
  math(EXPR last "${DEVICES} - 1")
  foreach(index RANGE ${last})
    list(APPEND rows "\\| cuda:${index} +\\| Simulated GPU +\\| +0\\.0 MiB \\| +0\\.0 MiB \\| +1024\\.0 MiB \\|")
  endforeach()
  expect_lines(
    "\\+-+\\+-+\\+-+\\+-+\\+-+\\+"
    "\\| Device +\\| Name +\\| +In use \\| +Peak \\| +Total \\|"
    "\\+=+\\+=+\\+=+\\+=+\\+=+\\+"
    ${rows}
    "\\+-+\\+-+\\+-+\\+-+\\+-+\\+")
elseif(EXAMPLE STREQUAL "train_mlp")
  set(part "[01](\\.[0-9]+)?")
  foreach(epoch RANGE 1 15)
    math(EXPR step "20 * ${epoch}")
    list(APPEND lines "epoch ${epoch}/15, step ${step}: train_loss ${part}, train_accuracy ${part}, validation_loss ${part}, validation_accuracy ${part}")
  endforeach()
  list(POP_BACK lines)
  expect_lines(
    "Training on ${DEVICES} device\\(s\\), from cuda:0 on"
    ${lines}
    "epoch 15/15, step 300: train_loss 0\\.0.*, train_accuracy .*, validation_loss 0\\.0.*, validation_accuracy (1|0\\.99.*)"
    "saved the model, 15 rows of history and their plot in .*")
elseif(EXAMPLE STREQUAL "model_parallel")
  # The loss falls, and by the very same numbers wherever the parts are.
  string(REGEX MATCH "loss 0\\.[1-9][0-9]* -> 0\\.00[0-9]+" fall "${output}")
  expect_lines("first on cpu, second on cuda:0: ${fall}" "first on cuda:0, second on cuda:1: ${fall}")
elseif(EXAMPLE STREQUAL "comm_hook")
  # One device sums nothing. With three, rounding changes the weights a little, and less with error feedback.
  set(end ": loss 0\\.[0-9]+, weights differ by (0\\.000[0-9]+) of their norm")
  expect_lines("sums in 32 bits: loss 0\\.[0-9]+" "in 16 bits${end}" "in 16 bits with error feedback${end}")
  string(REGEX MATCHALL "0\\.000[0-9]+" differences "${output}")
  list(GET differences 0 rounded)
  list(GET differences 1 fed_back)
  if(DEVICES EQUAL 1 AND rounded GREATER 0)
    message(FATAL_ERROR "one device sums nothing, got ${output}")
  elseif(DEVICES GREATER 1 AND NOT fed_back LESS rounded)
    message(FATAL_ERROR "expected error feedback to come nearer to sums in 32 bits, got ${output}")
  endif()
elseif(EXAMPLE STREQUAL "logging_on_device")
  # The sums agree in their first digits: one is added up in double, the other in float.
  set(time "[0-9.]+ ms")
  string(REGEX MATCH "norms: ([1-9][0-9][0-9])" norms "${output}")
  set(sum "${CMAKE_MATCH_1}[0-9][0-9][0-9]")
  expect_lines(
    "on cuda:0: read each time ${time}, kept on the device ${time}"
    "sums of the norms: ${sum} and ${sum}")
elseif(EXAMPLE STREQUAL "two_devices")
  # A hundred large products take longer than to enqueue them.
  set(time "[1-9][0-9]+(\\.[0-9]+)? ms")
  expect_lines("cuda:0 then cuda:1: ${time}, both at once: ${time}")
elseif(EXAMPLE MATCHES "^(lenet|resnet|capsules|lstm)$")
  set(last_lenet 4)
  set(last_resnet 2)
  set(last_capsules 3)
  set(last_lstm 8)
  set(last ${last_${EXAMPLE}})
  set(numbers "train_loss [0-9.e-]+, train_accuracy [0-9.]+, validation_loss [0-9.e-]+, validation_accuracy")
  foreach(epoch RANGE 1 ${last})
    list(APPEND lines "epoch ${epoch}/${last}, step [0-9]+: ${numbers} [0-9.]+")
  endforeach()
  list(POP_BACK lines)
  expect_lines("Training on ${DEVICES} device\\(s\\), from cuda:0 on" ${lines}
               "epoch ${last}/${last}, step [0-9]+: ${numbers} (1|0\\.9[0-9]*)")
elseif(EXAMPLE STREQUAL "vae")
  # An image that is grey everywhere costs 784 ln 2 = 543 nats.
  if(NOT output MATCHES "epoch 6/6, step 192: train_loss 2[0-9.]+, validation_loss 2[0-9.]+\n")
    message(FATAL_ERROR "expected less than 300 nats for an image, got\n${output}")
  endif()
elseif(EXAMPLE STREQUAL "triplet")
  # A network that has learned nothing is right one time in three or so.
  foreach(epoch 1 2 3 4)
    list(APPEND lines "epoch ${epoch}: loss 0\\.[0-9]+")
  endforeach()
  expect_lines("Training on ${DEVICES} device\\(s\\)" ${lines}
               "9[0-9][0-9] of 1000 test images have a nearest neighbour of their digit")
elseif(EXAMPLE STREQUAL "gpt")
  set(loss "loss [0-9.]+")
  foreach(step 200 400 600 800 1000 1200 1400 1500)
    list(APPEND lines "step ${step}: ${loss}")
  endforeach()
  expect_lines("Training on ${DEVICES} device\\(s\\), [0-9]+ bytes" ${lines} "[0-9]\\+[0-9]=[0-9]+" "[0-9]\\+[0-9]=[0-9]+"
               "[0-9]\\+[0-9]=[0-9]+" "(100|9[0-9]) of 100 sums are right")
elseif(EXAMPLE STREQUAL "gan")
  # Points of an untrained generator are near a cluster one time in twenty.
  set(loss "[01]\\.[0-9]+")
  expect_lines(
    "step 500: discriminator ${loss}, generator ${loss}"
    "step 1000: discriminator ${loss}, generator ${loss}"
    "step 1500: discriminator ${loss}, generator ${loss}"
    "[5-9][0-9][0-9] of 1000 points are near a cluster, 8 of 8 clusters are found")
elseif(EXAMPLE STREQUAL "custom_op")
  set(lines "on cpu: as composed")
  math(EXPR last "${DEVICES} - 1")
  foreach(index RANGE ${last})
    list(APPEND lines "on cuda:${index}: as composed")
  endforeach()
  expect_lines(
    ${lines}
    "gradients, and gradients of gradients, are those of the functions"
    "loss 0\\.[0-9]+ -> (0\\.00[0-9]+|[0-9.]+e-[0-9]+), beta [0-9.]+")
elseif(EXAMPLE STREQUAL "custom_optimizer")
  expect_lines(
    "loss [0-9]\\.[0-9]+ -> (0\\.0[0-9]+|[0-9.]+e-[0-9]+)"
    "[0-9]+ keys of state, the resumed run is the same")
elseif(EXAMPLE STREQUAL "tabular")
  # An error of less than a quarter of what the prices vary by, and a price near the one that the table was made with:
  # 40 + 250 + 30 + 60, and 36 less for the mean age.
  set(numbers "train_loss [0-9.e-]+, train_error [0-9.]+, validation_loss [0-9.e-]+, validation_error")
  foreach(epoch RANGE 1 12)
    math(EXPR step "48 * ${epoch}")
    list(APPEND lines "epoch ${epoch}/12, step ${step}: ${numbers} [0-9.]+")
  endforeach()
  list(POP_BACK lines)
  expect_lines("3000 homes in 4 cities, their prices differ from [3-5][0-9][0-9]\\.? by 1[0-9][0-9]\\.?" ${lines}
               "epoch 12/12, step 576: ${numbers} [12][0-9]\\.[0-9]+"
               "100 square metres in Tromso, of unknown age: 3[0-9][0-9]\\.?")
elseif(EXAMPLE STREQUAL "reinforce")
  # At random the pole stands for about twenty steps.
  set(steps "[0-9.]+ steps")
  expect_lines(
    "round 10: the pole stood for ${steps}"
    "round 20: the pole stood for ${steps}"
    "round 30: the pole stood for ${steps}"
    "round 40: the pole stood for (1[5-9][0-9](\\.[0-9]+)?|200) steps")
endif()
