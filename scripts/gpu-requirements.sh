# shellcheck shell=bash
# Looks for all that scripts/test-gpu needs on a machine, without building anything; sourced, after common.sh. Looks for
# programs on the PATH, and for headers, libraries and CMake packages under the prefixes that CMake searches.

prefixes=()
requirements=() # lines of the table: "found" or "MISSING", the requirement, and where it is or what to do
missing=0
nvcc="" cuda="" # the compiler, and the toolkit's folder
card="" driver="" architectures=""

# take_prefixes [FOLDER]: fills `prefixes`. FOLDER was made by scripts/bundle-deps. Its libraries are preferred to the
# system's; its CMake and Ninja are used only if the system has none, or a CMake that is too old.
take_prefixes() {
  local folder="${1:-}" entry
  local -a entries
  if [ -n "$folder" ]; then
    export CMAKE_PREFIX_PATH="$folder/usr${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}"
    add_library_folders "$folder"/usr/lib/*-linux-gnu "$folder/usr/lib"
    if ! cmake_will_do || ! command -v ninja >/dev/null; then
      export PATH="$folder/tools/usr/bin:$PATH"
      add_library_folders "$folder"/tools/usr/lib/*-linux-gnu "$folder"/tools/lib/*-linux-gnu
    fi
  fi
  IFS=: read -ra entries <<<"${CMAKE_PREFIX_PATH:-}"
  prefixes=("${entries[@]}")
  IFS=: read -ra entries <<<"$PATH"
  for entry in "${entries[@]}"; do
    [[ "$entry" != */bin ]] || prefixes+=("${entry%/bin}")
  done
  prefixes+=(/usr/local /usr)
}

# Adds folders to LD_LIBRARY_PATH, for the program loader, and for the linker, which also opens the libraries that a
# library needs.
add_library_folders() {
  local folder
  for folder in "$@"; do
    [ ! -d "$folder" ] || export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder"
  done
}

cmake_will_do() {
  local version
  version="$(cmake --version 2>/dev/null | sed -n '1s/.* //p')"
  [ -n "$version" ] && [ "$(printf '3.25\n%s\n' "$version" | sort -V | sed -n 1p)" = 3.25 ]
}

# need WHAT WHERE ADVICE: adds a line to the table. If WHERE is empty, the requirement is missing.
need() {
  if [ -n "$2" ]; then
    requirements+=("$(printf '  found    %-22s %s' "$1" "$2")")
  else
    requirements+=("$(printf '  MISSING  %-22s %s' "$1" "$3")")
    missing=$((missing + 1))
  fi
}

# under_prefixes PATTERN...: prints the first file under one of the prefixes whose path matches a pattern.
under_prefixes() {
  local prefix pattern
  for prefix in "${prefixes[@]}"; do
    for pattern in "$@"; do
      [ -z "$prefix" ] || compgen -G "$prefix/$pattern" || true
    done
  done | sed -n 1p
}

# loaded NAME: prints the file that a program would load as library NAME. Searches LD_LIBRARY_PATH, the cache of
# ldconfig, and the CUDA toolkit's folder, which Lockstep searches too.
loaded() {
  local folder
  local -a folders
  IFS=: read -ra folders <<<"${LD_LIBRARY_PATH:-}"
  {
    for folder in "${folders[@]}"; do
      [ -z "$folder" ] || compgen -G "$folder/$1" || true
    done
    { ldconfig -p || /sbin/ldconfig -p; } 2>/dev/null | sed -n "s|^\s*$1 .*=> ||p"
    cuda_file "lib64/$1"
  } | sed -n 1p
}

# need_loaded NAME ADVICE: requires a library that loaded() finds, or that is under a prefix. In the second case adds its
# folder to LD_LIBRARY_PATH.
need_loaded() {
  local found
  found="$(loaded "$1")"
  if [ -z "$found" ]; then
    found="$(under_prefixes "lib/*-linux-gnu/$1" "lib64/$1" "lib/$1")"
    [ -z "$found" ] || add_library_folders "$(dirname "$found")"
  fi
  need "$1" "$found" "$2"
}

# cuda_file PATTERN: prints the first matching file of the CUDA toolkit.
cuda_file() {
  [ -z "$cuda" ] || { compgen -G "$cuda/$1" || compgen -G "$cuda/targets/*/${1/lib64/lib}" || true; } | sed -n 1p
}

# find_card: sets `card`, `driver` and `architectures` if a driver responds.
find_card() {
  local query=(nvidia-smi "--format=csv,noheader")
  card="$("${query[@]}" --query-gpu=name,memory.total 2>/dev/null | sort | uniq -c | sed -E 's/^ *([0-9]+) /\1 x /' |
    paste -sd ';' || true)"
  [ -n "$card" ] || return 0
  driver="$("${query[@]}" --query-gpu=driver_version | sed -n 1p)"
  architectures="$("${query[@]}" --query-gpu=compute_cap | tr -d '. ' | sort -u | paste -sd ';')"
}

# need_driver: requires NVIDIA's driver and a card for whose architecture nvcc can compile.
need_driver() {
  local version known
  need "a GPU (nvidia-smi)" "$card" "a machine with NVIDIA's driver and a card; nvidia-smi shows none here"
  need_loaded libcuda.so.1 "part of NVIDIA's driver"
  [ -n "$card" ] && [ -n "$nvcc" ] || return 0
  for version in ${architectures//;/ }; do
    known="$("$nvcc" --list-gpu-code | grep -x "sm_$version" || true)"
    need "nvcc for sm_$version" "$known" "CUDA $(cuda_version) has none"
  done
  version="$(nvidia-smi | sed -nE 's/.*CUDA[A-Za-z ]* Version: *([0-9]+)\..*/\1/p' | sed -n 1p)"
  [ "${version:-99}" -ge "$(cuda_version | cut -d . -f 1)" ] || driver=""
  need "driver for CUDA $(cuda_version)" "$driver" "this one is for CUDA $version at most; or an older CUDA toolkit"
}

# Prints the version of cuBLAS's headers, such as 13.1.0.
cublas_version() {
  local header
  header="$(cuda_file include/cublas_api.h)"
  [ -z "$header" ] || sed -nE 's/^#define CUBLAS_VER_(MAJOR|MINOR|PATCH) ([0-9]+).*/\2/p' "$header" | paste -sd .
}

cuda_version() { "$nvcc" --version | sed -nE 's/.*release ([0-9.]+),.*/\1/p'; }

# need_cuda: requires nvcc, in one of the places that cmake/LockstepCuda.cmake searches, and the headers and libraries
# of the CUDA toolkit, cuDNN and NCCL. Sets `nvcc`, and `cuda`, the toolkit's folder.
need_cuda() {
  local major header
  nvcc="$(PATH="${CUDA_HOME:+$CUDA_HOME/bin:}${CUDA_PATH:+$CUDA_PATH/bin:}$PATH:/usr/local/cuda/bin" command -v nvcc ||
    true)"
  need nvcc "$nvcc" "CUDA's compiler: put it on the PATH, or set CUDA_HOME"
  [ -z "$nvcc" ] || cuda="$(realpath -m "$("$nvcc" --dryrun -x cu -c /dev/null 2>&1 | sed -n 's/^#\$ TOP=//p')")"
  need cuda_runtime.h "$(cuda_file include/cuda_runtime.h)" "of the CUDA toolkit"
  need libcudart_static.a "$(cuda_file lib64/libcudart_static.a)" "of the CUDA toolkit"
  need cublasLt.h "$(cuda_file include/cublasLt.h)" "of the CUDA toolkit: cuBLAS, the development package"
  major="$(cublas_version | cut -d . -f 1)"
  need_loaded "libcublasLt.so${major:+.$major}" "cuBLAS: name its folder in LD_LIBRARY_PATH"
  header="$(cuda_file include/cudnn_graph.h)"
  need cudnn_graph.h "${header:-$(under_prefixes include/cudnn_graph.h 'include/*-linux-gnu/cudnn_graph.h')}" \
    "cuDNN 9, the development package: add its folder to CMAKE_PREFIX_PATH"
  need_loaded libcudnn.so.9 "cuDNN: name its folder in LD_LIBRARY_PATH"
  header="$(cuda_file include/nccl.h)"
  need nccl.h "${header:-$(under_prefixes include/nccl.h)}" \
    "NCCL, the development package: add its folder to CMAKE_PREFIX_PATH"
  need_loaded libnccl.so.2 "NCCL: name its folder in LD_LIBRARY_PATH"
}

need_compiler() {
  local compiler
  compiler="$(command -v "${CXX:-c++}" || true)"
  printf '%s\n' '#include <concepts>' '#include <source_location>' 'static_assert(std::integral<int>);' |
    "${compiler:-false}" -std=c++20 -fsyntax-only -x c++ - 2>/dev/null || compiler=""
  need "a C++20 compiler" "$compiler" "${CXX:-c++} is not one: GCC 11 or newer, or set CXX"
}

need_build_tools() {
  local cmake=""
  cmake_will_do && cmake="$(command -v cmake)"
  need "cmake 3.25" "$cmake" "a newer one, or scripts/bundle-deps on another machine"
  need ninja "$(command -v ninja || true)" "ninja-build, or scripts/bundle-deps on another machine"
}

# need_library NAME PATTERNS...: requires a library. For each list of patterns there must be a file that matches one.
need_library() {
  local name="$1" list found
  local -a patterns
  shift
  for list in "$@"; do
    read -ra patterns <<<"$list"
    found="$(under_prefixes "${patterns[@]}")"
    [ -n "$found" ] || break
  done
  need "$name" "$found" "its development package, or scripts/bundle-deps on another machine"
}

need_libraries() {
  local config="lib/*-linux-gnu/cmake/@ lib64/cmake/@ lib/cmake/@ share/cmake/@"
  need_library oneTBB "${config//@/TBB/TBBConfig.cmake}"
  need_library oneDNN include/dnnl.hpp "lib/*-linux-gnu/libdnnl.so lib64/libdnnl.so lib/libdnnl.so"
  need_library GoogleTest "${config//@/GTest/GTestConfig.cmake}"
  need_library nlohmann-json "${config//@/nlohmann_json/nlohmann_jsonConfig.cmake}"
  need_library xxHash include/xxhash.h
  need_library fmt include/fmt/format.h
}
