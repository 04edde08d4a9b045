# shellcheck shell=bash
# Stages of .ci/run and scripts/verify. Sourced after lib.sh.
#
#   stage NAME COMMAND...          runs it, says how it ended and how long it took; a failure does not stop what follows
#   beside LANE FUNCTION           runs FUNCTION, which has stages, beside the stages that follow
#   join LANE                      waits for it, and prints what it printed
#   finish                         prints the tests that failed and the table, and exits with 1 if a stage failed
#   choose_stages NAME...          stage() leaves out all others; with --list it only prints the names
stages_folder=$(mktemp -d)
: >"$stages_folder/table"
declare -A lanes=()
chosen_stages=() list_stages=0

# However this ends, nothing goes on beside it: a guest, a browser.
end_stages() {
  local lane
  for lane in "${lanes[@]}"; do kill -- "-$lane" 2>/dev/null || true; done
  rm -rf "$stages_folder"
}
trap end_stages EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# For scripts/: lib.sh has changed the folder, so $0 may lead nowhere.
choose_stages() {
  local name names
  [[ ${1:-} != --list ]] || { list_stages=1 && return 0; }
  (($# == 0)) || names=$("scripts/$(basename "$0")" --list)
  for name in "$@"; do
    grep -qxF -- "$name" <<<"$names" || { say "$(basename "$0"): there is no stage '$name'; --list prints all" && exit 2; }
  done
  chosen_stages=("$@")
}

is_chosen() {
  local name
  ((${#chosen_stages[@]} > 0)) || return 0
  for name in "${chosen_stages[@]}"; do [[ $name != "$1" ]] || return 0; done
  return 1
}

stage() {
  local name=$1 start=$SECONDS status=0
  shift
  if ((list_stages)); then
    printf '%s\n' "$name"
    return 0
  fi
  is_chosen "$name" || return 0
  printf '\n=== %s\n' "$name"
  "$@" 2>&1 </dev/null || status=$?
  local took=$((SECONDS - start)) how=passed
  ((status == 0)) || how="FAILED ($status)"
  printf '=== %s: %s, %d s\n' "$name" "$how" "$took"
  printf '%d\t%s\t%s\n' "$took" "$how" "$name" >>"$stages_folder/table"
  return 0
}

beside() {
  local lane=$1
  shift
  ((!list_stages)) || { "$@" && return 0; }
  set -m # a process group of its own, which end_stages ends
  "$@" >"$stages_folder/lane-$lane" 2>&1 &
  lanes[$lane]=$!
  set +m
}

join() {
  local lane=$1 start=$SECONDS
  ((!list_stages)) || return 0
  wait "${lanes[$lane]}" || printf '0\tFAILED\t%s\n' "$lane" >>"$stages_folder/table"
  unset "lanes[$lane]"
  cat "$stages_folder/lane-$lane"
  printf '(waited %d s for what ran beside)\n' $((SECONDS - start))
}

# The ten most expensive files to compile (wall-clock seconds, two at once), and the ten most expensive tests.
most_expensive() {
  local preset
  printf '\nThe most expensive to compile, seconds:\n'
  for preset in build/*/; do
    [[ ! -e $preset/.ninja_log ]] ||
      awk -v preset="$(basename "$preset")" -F '\t' \
        '$4 ~ /\.o$/ { seconds[$4] = ($2 - $1) / 1000 } END { for (f in seconds) printf "%7.1f  %s: %s\n", seconds[f], preset, f }' \
        "$preset/.ninja_log"
  done | sort -rn | awk 'NR <= 10'
  printf 'The most expensive tests, seconds:\n'
  for preset in build/*/; do
    [[ ! -e $preset/Testing/Temporary/CTestCostData.txt ]] ||
      awk -v preset="$(basename "$preset")" '/^---/ { exit } NF == 3 { printf "%7.1f  %s: %s\n", $3, preset, $1 }' \
        "$preset/Testing/Temporary/CTestCostData.txt"
  done | sort -rn | awk 'NR <= 10'
}

# Of each preset's last run of ctest, as its own output may be far above: how the first few began to fail, and all names.
failed_tests() {
  local folder name
  for folder in build/*/Testing/Temporary; do
    [[ -e $folder/LastTestsFailed.log ]] || continue
    while IFS=: read -r _ name; do
      awk -v begin="Testing: $name" 'substr($0, length($0) - length(begin) + 1) == begin { on = 1; print "" }
        /^<end of output>/ { on = 0 } on && ++lines <= 40' "$folder/LastTest.log"
    done < <(awk 'NR <= 5' "$folder/LastTestsFailed.log")
  done
  for folder in build/*/Testing/Temporary; do
    [[ -e $folder/LastTestsFailed.log ]] || continue
    printf '\nTests that failed, %s:\n' "$(basename "${folder%/Testing/Temporary}")"
    cut -d : -f 2- "$folder/LastTestsFailed.log"
  done
}

finish() {
  local lane
  ((!list_stages)) || exit 0
  for lane in "${!lanes[@]}"; do join "$lane"; done
  most_expensive || true
  failed_tests || true
  printf '\nStages, seconds:\n'
  awk -F '\t' '{ printf "%7d  %-12s %s\n", $1, $2, $3 }' "$stages_folder/table"
  printf '%7d  in all (%d cores)\n' "$SECONDS" "$(nproc)"
  ! grep -q $'\tFAILED' "$stages_folder/table" || exit 1
  exit 0
}
