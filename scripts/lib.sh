# shellcheck shell=bash
# What the scripts share. Sourced, never run: it moves to the root of the source tree, from wherever it was called.
set -euo pipefail

# --help of any script prints the comment at its head.
case ${1:-} in
  -h | --help)
    awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "${BASH_SOURCE[-1]}"
    exit 0
    ;;
esac
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# say TEXT: a line of the script's own, on standard error, so that a program's output stays clean.
say() { printf '%s\n' "$*" >&2; }

# die TEXT: the environment failed (exit status 3, as the program has it).
die() {
  say "$(basename "$0"): $*"
  exit 3
}

# require_number NAME TEXT: ends the script with status 2 if the text is no whole number above 0.
require_number() {
  [[ $2 =~ ^[1-9][0-9]{0,14}$ ]] || { say "$(basename "$0"): $1 '$2': it must be a whole number above 0" && exit 2; }
}

# packages GROUP...: the Debian packages of the groups.
packages() {
  local group
  for group in "$@"; do
    case $group in
      build)
        echo g++ cmake ninja-build ccache pkg-config libibverbs-dev librdmacm-dev libnuma-dev libtbb-dev libfmt-dev \
          libcli11-dev libisal-dev nlohmann-json3-dev libtomlplusplus-dev
        ;;
      test) echo libgtest-dev libgmock-dev libbenchmark-dev make valgrind tshark python3-scapy \
        ibverbs-utils rdmacm-utils perftest qperf python3-pyverbs \
        ucx-utils libfabric-bin fio openmpi-bin python3-mpi4py dapl2-utils ;;
      vm)
        echo qemu-system-x86 kmod cpio xz-utils python3 iproute2 ibverbs-providers ibverbs-utils perftest \
          python3-pyverbs
        ;;
      report) echo nodejs npm chromium ;;
      fuzz | asan) echo clang-16 libclang-rt-16-dev llvm-16 ;;
      lint) echo clang-16 clang-format-16 clang-tidy-16 git jq ;;
      bare) echo debootstrap ;;
      *) die "unknown group '$group', there are: build test vm report fuzz asan lint bare" ;;
    esac
  done
}

# missing GROUP...: those of the packages that are not installed.
missing() {
  local package wanted
  wanted=$(packages "$@")
  for package in $wanted; do
    # Packages of nodejs that are not Debian's bring npm along, and refuse Debian's.
    [[ $package != npm ]] || ! command -v npm >/dev/null || continue
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || echo "$package"
  done
}

# jobs: as many as there are cores, but no more than memory allows (a compiler takes up to 1.5 GiB here).
jobs_allowed() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/^MemAvailable:/ { print int($2 / 1024 / 1536) }' /proc/meminfo)
  ((memory >= 1)) || memory=1
  echo $((cores < memory ? cores : memory))
}

# quietly COMMAND...: its output only if it fails.
quietly() {
  local log status=0
  log=$(mktemp)
  "$@" >"$log" 2>&1 </dev/null || status=$?
  ((status == 0)) || cat "$log" >&2
  rm -f "$log"
  return "$status"
}

# configure PRESET [CMAKE ARGUMENT...]
configure() { quietly cmake --preset "$@"; }

# build PRESET [BUILD ARGUMENT...]: on a terminal with ninja's status line, else silent unless it fails.
build() {
  local preset=$1
  shift
  if [[ -t 2 ]]; then
    cmake --build --preset "$preset" --parallel "$(jobs_allowed)" "$@" >&2
  else
    quietly cmake --build --preset "$preset" --parallel "$(jobs_allowed)" "$@"
  fi
}
