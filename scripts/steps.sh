# shellcheck shell=bash disable=SC2154 # root
# Runs the steps of a phase until a deadline, and keeps a summary of them; sourced, after common.sh.
#
#   begin_phase check 570 FOLDER "GPU and versions"
#   plan alone 180 "first steps" my_function argument     # runs while no other step runs, for at most 180 s
#   plan beside 300 "ops, cuda" build/tests/ops_tests     # runs beside its neighbours
#   run_phase 16                                          # at most 16 steps at once, in the order of the plan
#
# FOLDER/gpu-check.md has a row for each planned step. It is written again whenever a step begins or ends, so it is true
# at any moment, even after SIGKILL. FOLDER/gpu-check.log has the output of the steps that ended; that of the others is
# in FOLDER/gpu-check-running.
#
# A command is a program or a function. Functions that steps use, and their variables, must be exported. A step that
# cannot run prints a line "NAME: NOT RUN: reason".

caught="" # the signal that ends the phase
trap 'caught=SIGTERM' TERM
trap 'caught=SIGINT' INT
trap 'caught=SIGHUP' HUP
trap 'end_processes "[0-9]*"' EXIT

# begin_phase NAME SECONDS FOLDER TEXT: begins a plan. SECONDS count from now.
begin_phase() {
  phase="$1" phase_seconds="$2" phase_text="$4"
  summary="$3/gpu-$1.md" phase_log="$3/gpu-$1.log" running_logs="$3/gpu-$1-running"
  phase_start=$SECONDS marker="$$.$EPOCHSECONDS.$1"
  names=() modes=() limits=() commands=() results=() details=() starts=() times=() processes=()
  tables="" table_header="" failed_tests="" failures=0
  mkdir -p "$running_logs"
  : >"$phase_log"
}

# plan MODE LIMIT NAME COMMAND...: MODE is alone or beside; LIMIT is in seconds, 0 for a step that only the deadline
# ends.
plan() {
  modes+=("$1") limits+=("$2") names+=("$3") results+=("not begun") details+=("") times+=("")
  commands+=("$(printf '%q ' "${@:4}")")
}

# plan_not_run NAME REASON: adds a row for a step that cannot run on this machine. It does not count as a failure.
plan_not_run() {
  modes+=(none) limits+=(0) names+=("$1") results+=("NOT RUN") details+=("$2") times+=("") commands+=("")
}

# Prints how many steps have each result.
counts() {
  printf '%s\n' "${results[@]}" | sed 's/ (.*//' | sort | uniq -c | sed 's/^ *//' | paste -sd , | sed 's/,/, /g'
}

# write_summary STATE: the state of the phase as a whole.
write_summary() {
  local i
  {
    echo "$phase_text"
    echo
    echo "Phase $phase, $(date -u '+%Y-%m-%d %H:%M:%S') UTC: $1"
    echo
    echo "| step | result | tests | seconds |"
    echo "|---|---|---|---|"
    for i in "${!names[@]}"; do
      echo "| ${names[i]} | ${results[i]} | ${details[i]} | ${times[i]} |"
    done
    if [ -n "$failed_tests" ]; then printf '\nFailed tests:\n\n%s' "$failed_tests"; fi
    printf '%s' "$tables"
  } >"$summary.new"
  mv "$summary.new" "$summary"
}

progress() {
  write_summary "running. If no process of it runs any more, it was killed during the steps marked \"running\"."
}

log_of() {
  echo "$running_logs/$1-${names[$1]//[^A-Za-z0-9_.-]/-}.log"
}

begin_step() {
  local i="$1" log
  log="$(log_of "$i")"
  results[i]=running starts[i]=$SECONDS
  export STEP_LOG="$log" # for in_parts
  LOCKSTEP_STEP="$marker.$i" bash -c "set -euo pipefail; ${commands[i]}" >"$log" 2>&1 </dev/null &
  processes[i]=$!
  progress
}

# end_processes STEP: ends all processes of a step, found by their environment, whatever process group or session they
# are in. STEP is the step's number, or a pattern. Sends SIGTERM, and SIGKILL to those that are left after 2 s.
end_processes() {
  local signal=TERM attempt
  local -a left
  for attempt in {0..30}; do
    mapfile -t left < <(grep -lszx "LOCKSTEP_STEP=${marker:-none}\.$1" /proc/[0-9]*/environ | cut -d / -f 3)
    [ ${#left[@]} -gt 0 ] || return 0
    [ "$attempt" -lt 20 ] || signal=KILL
    if [ "$attempt" -eq 0 ] || [ "$signal" = KILL ]; then kill -s "$signal" "${left[@]}" 2>/dev/null || true; fi
    sleep 0.1
  done
}

# outcome LOG STATUS: prints the result of a step that ended by itself. "NOT RUN" also if it returns success, but found
# no card, or is a test program in which no test ran.
outcome() {
  if [ "$2" -eq 127 ] || grep -qE '^[a-z-]+: NOT RUN|LOCKSTEP_DEVICES asks for GPUs, but there' "$1" ||
    { grep -q '^\[  PASSED  \] 0 tests' "$1" && ! grep -qE '^\[  (PASSED  \] [1-9]|FAILED )' "$1"; }; then
    echo "NOT RUN"
  elif [ "$2" -ne 0 ]; then
    echo "FAILED ($2)"
  else
    echo passed
  fi
}

# detail RESULT LOG: prints how many tests passed, which ones were cut, how far a build came, or why a step did not run.
detail() {
  if [ "$1" = "NOT RUN" ]; then
    sed -nE -e '/^[a-z-]+: NOT RUN/ {s/^[a-z-]+: NOT RUN:? ?//; s/ \([0-9]+\)$//; p}' \
      -e 's/.*(LOCKSTEP_DEVICES asks for GPUs, but there.*)/\1/p' \
      -e "s#^.*: ($root/)?([^ :]+): No such file or directory\$#\2 is not built#p" "$2" | sed -n 1p
    return
  fi
  {
    sed -nE 's/^\[ +(PASSED|SKIPPED|FAILED) +\] ([0-9]+) tests?.*/\2 \L\1/p' "$2" |
      awk '{count[$2] += $1} END {for (kind in count) print count[kind], kind}' | sort -k 2,2
    if [[ "$1" =~ ^(STOPPED|TIMED OUT)$ ]]; then
      awk '/^\[ RUN / {running[$4]} /^\[ +(OK|SKIPPED|FAILED) +\] .*\./ {delete running[$4]; ++count[$2]}
        END {
          if (count["OK"]) print count["OK"] " passed"
          if (count["FAILED"]) print count["FAILED"] " failed"
          for (test in running) print "during " test
        }' "$2"
    fi
    sed -n 's/^\*\*\(.*\)\*\*$/\1/p' "$2" # a warning of benchmarks/run
    grep -v globbed "$2" | grep -oE '^\[[0-9]+/[0-9]+\]' | tail -n 1 | tr -d '[]' || true
  } | paste -sd , | sed 's/,/, /g'
}

# add_tables LOG: takes the Markdown tables of a step's output into the summary. Tables with the same header become one.
add_tables() {
  local lines
  lines="$(grep '^|' "$1" || true)"
  [ -n "$lines" ] || return 0
  if [ "${lines%%$'\n'*}" = "$table_header" ]; then
    lines="$(tail -n +3 <<<"$lines")"
  else
    table_header="${lines%%$'\n'*}"
    tables+=$'\n'
  fi
  tables+="$lines"$'\n'
}

# end_step NUMBER [RESULT]: takes the output of a step that has ended into the log and the summary.
end_step() {
  local i="$1" result="${2:-}" status=0 log test
  log="$(log_of "$i")"
  # A process that waits for a driver may outlive SIGKILL.
  if kill -0 "${processes[i]}" 2>/dev/null; then status=137; else wait "${processes[i]}" || status=$?; fi
  unset "processes[i]"
  if compgen -G "$log.*" >/dev/null; then cat "$log".* >>"$log"; fi # of in_parts
  results[i]="${result:-$(outcome "$log" "$status")}"
  details[i]="$(detail "${results[i]}" "$log")"
  times[i]=$((SECONDS - starts[i]))
  case "${results[i]}" in
    "NOT RUN") [ "$status" -ne 127 ] && [ -n "${without_gpu:-}" ] || failures=$((failures + 1)) ;;
    FAILED* | "TIMED OUT") failures=$((failures + 1)) ;;
  esac
  if ! grep -q '^\[==========\]' "$log"; then add_tables "$log"; fi
  while read -r test; do
    failed_tests+="- ${names[i]}: $test"$'\n'
  done < <(sed -nE 's/^\[  FAILED  \] ([^ ,]+\.[^ ,]+)(,.*| \(.*)?$/\1/p' "$log" | sort -u)
  {
    printf '\n===== %s: %s, %s s\n' "${names[i]}" "${results[i]}" "${times[i]}"
    if [ "$(stat -c %s "$log")" -gt 1000000 ]; then
      head -c 200000 "$log" && printf '\n[...]\n' && tail -c 800000 "$log"
    else
      cat "$log"
    fi
  } >>"$phase_log"
  rm -f "$log" "$log".*
  echo "$phase: ${names[i]}: ${results[i]}${details[i]:+, ${details[i]}}, ${times[i]} s"
  progress
}

# may_begin NUMBER AT_ONCE: succeeds if the next step may begin beside those that run.
may_begin() {
  local last
  [ "$1" -lt ${#names[@]} ] || return 1
  [ ${#processes[@]} -gt 0 ] || return 0
  last="${!processes[*]}"
  [ "${modes[$1]}" = beside ] && [ "${modes[${last##* }]}" = beside ] && [ ${#processes[@]} -lt "$2" ]
}

# run_phase AT_ONCE: runs the plan. Returns 0 if all steps that ran have passed, 1 if one has not, and 3 if the deadline
# or a signal stopped the phase.
run_phase() {
  local next=0 stopped="" i
  progress
  while true; do
    for i in "${!processes[@]}"; do
      if ! kill -0 "${processes[i]}" 2>/dev/null; then
        end_step "$i"
      elif [ "${limits[i]}" -gt 0 ] && [ $((SECONDS - starts[i])) -ge "${limits[i]}" ]; then
        end_processes "$i"
        end_step "$i" "TIMED OUT"
      fi
    done
    while [ "${modes[next]:-}" = none ]; do next=$((next + 1)); done
    [ ${#processes[@]} -gt 0 ] || [ "$next" -lt ${#names[@]} ] || break
    [ $((SECONDS - phase_start)) -lt "$phase_seconds" ] || stopped="the deadline of $phase_seconds s"
    stopped="${caught:-$stopped}"
    [ -z "$stopped" ] || break
    while may_begin "$next" "$1"; do
      begin_step "$next"
      next=$((next + 1))
    done
    sleep 0.1 & wait $! || true # a signal ends the wait at once
  done
  if [ ${#processes[@]} -gt 0 ]; then end_processes '[0-9]*'; fi
  for i in "${!processes[@]}"; do end_step "$i" STOPPED; done
  rmdir "$running_logs"
  if [ -n "$stopped" ]; then
    finish 3 "stopped by $stopped: $(counts)."
  elif [ "$failures" -gt 0 ]; then
    finish 1 "ended: $(counts)."
  else
    finish 0 "ended: $(counts)."
  fi
}

finish() {
  write_summary "$2"
  echo "$phase: $2 See $summary"
  return "$1"
}
