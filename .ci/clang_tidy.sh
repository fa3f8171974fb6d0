#!/usr/bin/env bash
# clang-tidy over native/, as many files at a time as there are cores. A file that passed is not
# read again until it, a header, the checks or the compile commands change.
# Usage: .ci/clang_tidy.sh BUILD_DIR JOBS
set -euo pipefail

build=$1
jobs=$2
passed=build/tidy
mkdir -p "$passed"

# The headers are hashed together: who includes what is clang's knowledge, not ours.
common=$(find native -name '*.h' -print0 | sort -z |
  xargs -0 cat .clang-tidy "$build/compile_commands.json" | sha256sum | cut -c1-16)

check() {
  local file=$1 key stamp
  key=$(sha256sum < "$file" | cut -c1-16)
  stamp=$passed/$(tr / - <<< "$file").$common.$key
  [ ! -e "$stamp" ] || return 0
  clang-tidy --quiet -p "$build" --extra-arg=-Wno-unknown-warning-option "$file" \
    2> >(grep -vE '^[0-9]+ warnings? ' >&2) || return 1
  touch "$stamp"
}
export -f check
export build passed common

find native \( -name '*.cpp' -o -name '*.cu' \) -print0 |
  sort -z | xargs -0 -P "$jobs" -I{} bash -c 'check "$1"' _ {}
echo "clang-tidy: $(find native -name '*.cpp' -o -name '*.cu' | wc -l) files clean"
