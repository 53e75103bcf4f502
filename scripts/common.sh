# shellcheck shell=bash
# What the scripts share; sourced, not run. Sets root, works from any folder, and keeps build output in logs.
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root" || exit
logs="$root/build/logs"
mkdir -p "$logs"

jobs="$(nproc)"
export CMAKE_BUILD_PARALLEL_LEVEL="${CMAKE_BUILD_PARALLEL_LEVEL:-$jobs}"
# One test more than cores: what several processes or devices do together is waiting, in part.
export CTEST_PARALLEL_LEVEL="${CTEST_PARALLEL_LEVEL:-$((jobs + 1))}"
if [ -z "${CMAKE_CXX_COMPILER_LAUNCHER:-}" ] && command -v ccache >/dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache
fi
# Linking a program of tests takes lld a fifth of the time.
if [ -z "${LDFLAGS:-}" ] && command -v ld.lld >/dev/null; then
  export LDFLAGS=-fuse-ld=lld
fi
# What was compiled in one clone is found again in another one.
export CCACHE_BASEDIR="${CCACHE_BASEDIR:-$root}" CCACHE_NOHASHDIR=1
# And what includes precompiled headers.
export CCACHE_SLOPPINESS="${CCACHE_SLOPPINESS:-pch_defines,time_macros}"

# The Debian packages that Lockstep is built with, besides a compiler.
# shellcheck disable=SC2034
tool_packages=(cmake ninja-build) library_packages=(libtbb-dev libdnnl-dev libgtest-dev
  nlohmann-json3-dev libxxhash-dev libfmt-dev libpng-dev libjpeg-dev) mpi_packages=(libopenmpi-dev openmpi-bin) test_data_packages=(libonnx-testdata)

# logged NAME COMMAND...: one line when it starts; its output goes to build/logs/NAME.log, shown only if it fails.
logged() {
  local log="$logs/$1.log"
  shift
  echo "+ $*"
  if ! "$@" >"$log" 2>&1 </dev/null; then
    tail -n 200 "$log" >&2
    echo "$(basename "$0"): failed: $* (all of its output: $log)" >&2
    return 1
  fi
}

# build PRESET TARGET [ARGUMENT...]: configures with these arguments, and builds a target with all it needs.
build() {
  local preset="$1" target="$2"
  shift 2
  logged "$preset-configure" cmake --preset "$preset" "$@"
  logged "$preset-build" cmake --build --preset "$preset" --target "$target"
}
