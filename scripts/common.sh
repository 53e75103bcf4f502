# shellcheck shell=bash
# Functions and settings of all scripts; sourced, not run. Sets `root`, makes it the current folder, and keeps build
# output in `logs`.
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root" || exit
logs="$root/build/logs"
mkdir -p "$logs"

jobs="$(nproc)"
export CMAKE_BUILD_PARALLEL_LEVEL="${CMAKE_BUILD_PARALLEL_LEVEL:-$jobs}"
# Run nproc + 1 tests at once, because tests of several processes or devices sometimes wait.
export CTEST_PARALLEL_LEVEL="${CTEST_PARALLEL_LEVEL:-$((jobs + 1))}"
if [ -z "${CMAKE_CXX_COMPILER_LAUNCHER:-}" ] && command -v ccache >/dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache
fi
# lld links a test program in a fifth of the time that the default linker takes.
if [ -z "${LDFLAGS:-}" ] && command -v ld.lld >/dev/null; then
  export LDFLAGS=-fuse-ld=lld
fi
# With these settings ccache also finds files that were compiled in another clone,
export CCACHE_BASEDIR="${CCACHE_BASEDIR:-$root}" CCACHE_NOHASHDIR=1
# and files that include precompiled headers.
export CCACHE_SLOPPINESS="${CCACHE_SLOPPINESS:-pch_defines,time_macros}"
# If only a comment of a header has changed, GCC includes it again beside an older precompiled header: so comments count.
export CCACHE_COMMENTS=1

# The Debian packages that Lockstep is built with, besides a compiler.
# shellcheck disable=SC2034
tool_packages=(cmake ninja-build) library_packages=(libtbb-dev libdnnl-dev libgtest-dev
  nlohmann-json3-dev libxxhash-dev libfmt-dev libpng-dev libjpeg-dev) mpi_packages=(libopenmpi-dev openmpi-bin) test_data_packages=(libonnx-testdata)

# logged NAME COMMAND...: prints the command and runs it. Its output goes to build/logs/NAME.log, and is shown only if
# the command fails.
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

# build PRESET TARGET [ARGUMENT...]: configures with these arguments, and builds the target and its dependencies.
build() {
  local preset="$1" target="$2"
  shift 2
  logged "$preset-configure" cmake --preset "$preset" "$@"
  logged "$preset-build" cmake --build --preset "$preset" --target "$target"
}
