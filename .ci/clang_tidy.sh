#!/usr/bin/env bash
# clang-tidy over native/, as many compile commands at a time as there are cores. A unity build's
# commands have eight files each, whose headers are read once. What passed is not read again until
# one of its files, a header, the checks or the compile commands change.
# Usage: .ci/clang_tidy.sh BUILD_DIR JOBS
set -euo pipefail

build=$1
jobs=$2
passed=build/tidy
mkdir -p "$passed"

# The headers are hashed together: who includes what is clang's knowledge, not ours.
common=$(find native -name '*.h' -print0 | sort -z |
  xargs -0 cat .clang-tidy "$build/compile_commands.json" | sha256sum | cut -c1-16)

# The sources of a command: those that a unity file includes, or the file itself.
sources() {
  case $1 in
    */Unity/*) sed -nE 's/^#include "(.*)"$/\1/p' "$1" ;;
    *) echo "$1" ;;
  esac
}

check() {
  local file=$1 key stamp
  key=$(sources "$file" | xargs cat | sha256sum | cut -c1-16)
  stamp=$passed/$key.$common
  [ ! -e "$stamp" ] || return 0
  # A unity file includes sources, as nothing else may.
  local checks=()
  if [[ $file == */Unity/* ]]; then checks=(--checks=-bugprone-suspicious-include); fi
  clang-tidy --quiet -p "$build" --extra-arg=-Wno-unknown-warning-option "${checks[@]}" "$file" \
    2> >(grep -vE '^[0-9]+ warnings? ' >&2) || return 1
  touch "$stamp"
}
export -f check sources
export build passed common

# The commands of the library: none of its tests, and of a single file only those in native/.
mapfile -t commands < <(sed -nE 's/^ *"file": "(.*)",?$/\1/p' "$build/compile_commands.json" |
  grep -E "/holdfast\.dir/Unity/|^$PWD/native/" | sort)
# Whatever no command compiles would be read by nobody.
read_files=$(for command in "${commands[@]}"; do sources "$command"; done | sed "s|^$PWD/||" | sort)
missing=$(find native \( -name '*.cpp' -o -name '*.cu' \) | sort | comm -23 - <(echo "$read_files"))
if [ -n "$missing" ]; then
  echo "clang-tidy: no compile command for:" $missing >&2
  exit 1
fi
printf '%s\0' "${commands[@]}" | xargs -0 -P "$jobs" -I{} bash -c 'check "$1"' _ {}
echo "clang-tidy: $(grep -c '^native/' <<< "$read_files") files clean"
