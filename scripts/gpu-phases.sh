# shellcheck shell=bash disable=SC2154 # root, jobs, nvcc, cuda
# The steps of scripts/test-gpu, in the order in which they begin; sourced, after common.sh, gpu-requirements.sh and
# steps.sh. docs/gpu-results.md describes the phases.

export tree="$root/build/gpu"
programs=(ops optim tensor nn autograd parallel runtime data extend io models reference train)
first_tests="$root/tests/cuda/first_on_gpu.txt"
unset LOCKSTEP_DEVICES LOCKSTEP_TEST_DEVICES

# versions: prints what ran where, for the summaries.
versions() {
  local commit nccl
  commit="$(git describe --always --dirty=', changed' 2>/dev/null || echo unknown)"
  nccl="$(grep -aom 1 -E 'NCCL version [0-9][0-9.]*' "$(loaded libnccl.so.2)" || true)"
  architectures="${architectures:-90}"
  echo "Lockstep $commit. ${card:-No GPU}${driver:+, driver $driver}."
  echo "CUDA $(cuda_version) for sm_${architectures//;/, sm_}, cuBLAS $(cublas_version)${nccl:+, ${nccl/ version/}}."
}

# at_once PHASE: prints how many steps may run at the same time.
at_once() {
  if [ "$1" = measure ]; then echo 1; else echo "$((jobs < 16 ? jobs : 16))"; fi
}

# python3's own PyTorch. Does not load it, which takes seconds.
has_torch() { python3 -c 'import sys, importlib.util as u; sys.exit(u.find_spec("torch") is None)' 2>/dev/null; }

# --- build

build_programs() {
  # Removes the programs of an earlier build, so that they are not run if the build fails or is stopped.
  rm -f "$tree"/tests/*_tests "$tree"/examples/{random_dataset,train_mlp,device_info} \
    "$tree"/benchmarks/{bandwidth,workloads}
  cmake --build "$tree" --target "$@" -- -k 0
}
export -f build_programs

plan_build() {
  plan alone 120 configure cmake --fresh --preset release -B "$tree" -DLOCKSTEP_CUDA=ON -DLOCKSTEP_NVCC="$nvcc" \
    -DCMAKE_CUDA_ARCHITECTURES="${architectures:-90}"
  plan beside 0 "library and programs" build_programs "${programs[@]/%/_tests}" vendor_tests random_dataset \
    train_mlp device_info bandwidth workloads
  if has_torch; then
    plan beside 300 "PyTorch's workloads" benchmarks/peer/build "$tree/peer" own
  else
    plan_not_run "PyTorch's workloads" "python3 has no torch"
  fi
}

# --- check

# in_parts COUNT COMMAND...: runs a GoogleTest program as COUNT processes, each with its part of the tests.
in_parts() {
  local part pid status=0 pids=()
  for ((part = 0; part < $1; ++part)); do
    GTEST_TOTAL_SHARDS="$1" GTEST_SHARD_INDEX="$part" "${@:2}" >"$STEP_LOG.$part" 2>&1 &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
  return "$status"
}

# Runs on all cards at once, when no kernel was loaded, no product planned and no card connected yet.
cold_start() {
  local place
  place="$(mktemp -d)" # for what it saves
  cd "$place" || return
  LOCKSTEP_DEVICES=cuda "$tree/examples/train_mlp"
  rm -rf "$place"
}

# The example must print the same text on three devices of one card as on three simulated devices.
same_as_simulated() {
  local program="$tree/examples/random_dataset" output
  output="$(LOCKSTEP_DEVICES=cuda:0,0,0 "$program")" || return
  echo "$output"
  diff <("$program" --simulate 3) - <<<"$output"
}
export -f in_parts cold_start same_as_simulated

on_devices() { LOCKSTEP_TEST_DEVICES="$1" "${@:2}"; }
device_info() { LOCKSTEP_DEVICES=cuda "$tree/examples/device_info"; }
export -f on_devices device_info

plan_check() {
  local program devices filter
  plan alone 180 "cold first steps, all cards" cold_start
  plan alone 60 device_info device_info
  while read -r program devices filter _; do
    plan beside 300 "$program, $devices, \`$filter\`" on_devices "$devices" "$tree/tests/${program}_tests" \
      --gtest_filter="$filter"
  done < <(grep -E '^[a-z]' "$first_tests")
  for program in "${programs[@]}"; do
    for devices in cuda shared; do
      plan beside 0 "$program, $devices" on_devices "$devices" in_parts 2 "$tree/tests/${program}_tests"
    done
  done
  plan beside 300 "CUDA's libraries" "$tree/tests/vendor_tests"
  plan beside 300 "runtime, simulated" "$tree/tests/runtime_tests"
  plan beside 120 random_dataset same_as_simulated
}

# --- measure

# Rows of a table that compare Lockstep with PyTorch.
against_pytorch() { # PEER TURNS CASE
  if [ "$1" != own ] && [ ! -x "$1/libtorch" ]; then
    echo "measure: NOT RUN: $1/libtorch is not built"
    return 127
  fi
  BENCH_SECONDS=0.25 benchmarks/run --device cuda:0 --no-build --peer "$1" --turns "$2" --cases "$3"
}
export -f against_pytorch

plan_measure() {
  local case why=""
  [ -n "$card" ] || why="no GPU"
  [ -n "$why" ] || has_torch || why="python3 has no torch"
  plan alone 120 bandwidth "$tree/benchmarks/bandwidth"
  for case in gpt2_bfloat16 gpt_sdpa_bfloat16 mlp resnet gpt_sdpa gpt2; do
    if [ -n "$why" ]; then
      plan_not_run "$case: PyTorch eager, compiled, as a CUDA graph" "$why"
    else
      plan alone 150 "$case: PyTorch eager, compiled, as a CUDA graph" against_pytorch own 1 "$case"
    fi
  done
  # If the build was on another machine.
  if [ -z "$why" ] && [ ! -x "$tree/peer/libtorch" ]; then
    plan alone 200 "PyTorch's workloads" benchmarks/peer/build "$tree/peer" own
  fi
  for case in elementwise matmul small lstm resnet gpt gpt_bfloat16 seed lenet d2l; do
    if [ -n "$why" ]; then
      plan_not_run "$case: PyTorch's C++ front end" "$why"
    else
      plan alone 90 "$case: PyTorch's C++ front end" against_pytorch "$tree/peer" 2 "$case"
    fi
  done
}

# --- profile

# find_tool NAME: prints the path of one of NVIDIA's tools, or nothing.
find_tool() {
  PATH="$PATH:$cuda/bin" command -v "$1" || compgen -G "/opt/nvidia/nsight-*/*/$1" | tail -n 1 || true
}

plan_profile() {
  local profiler sanitizer case words program tool filter why=""
  profiler="$(find_tool ncu)"
  profiler="${profiler:-$(find_tool nsys)}"
  [ -n "$profiler" ] || why="neither ncu nor nsys is installed"
  [ -n "$card" ] || why="no GPU"
  for case in "bandwidth 64" "workloads gpt_bfloat16" "workloads resnet"; do
    if [ -n "$why" ]; then
      plan_not_run "kernels of $case" "$why"
    else
      read -ra words <<<"$case"
      plan alone 120 "kernels of $case" benchmarks/profile "$profiler" "$tree/benchmarks/${words[0]}" "${words[1]}"
    fi
  done

  # Slow, so only over the tests that run first.
  sanitizer="$(find_tool compute-sanitizer)" why=""
  [ -n "$sanitizer" ] || why="compute-sanitizer is not installed"
  [ -n "$card" ] || why="no GPU"
  for tool in memcheck racecheck initcheck synccheck; do
    for program in ops tensor autograd; do
      if [ -n "$why" ]; then
        plan_not_run "$program, $tool" "$why"
        continue
      fi
      filter="$(awk -v program="$program" '$1 == program && $2 == "cuda" {print $3}' "$first_tests" | paste -sd :)"
      plan beside 400 "$program, $tool" on_devices cuda "$sanitizer" --tool "$tool" --error-exitcode 99 \
        "$tree/tests/${program}_tests" --gtest_filter="$filter"
    done
  done
}
