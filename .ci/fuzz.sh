#!/usr/bin/env bash
# Runs every fuzzer for a short time from its committed corpus. Finds go to build/fuzz-new/NAME,
# crashes to build/fuzz-crash-NAME-*; a crash fails the run, and its input belongs into the corpus
# with the fix.
# Usage: .ci/fuzz.sh BUILD_DIR SECONDS JOBS
set -euo pipefail

export build=$1
export seconds=$2
jobs=$3
shopt -s nullglob
sources=(tests/fuzz/*.cpp)
if [ ${#sources[@]} -eq 0 ]; then
  echo "fuzz: skipped, tests/fuzz holds no fuzzer"
  exit 0
fi

fuzz() {
  local name=$1 corpus=tests/fuzz/corpus/$1 log=build/logs/fuzz-$1.log runs
  if [ ! -d "$corpus" ]; then
    echo "fuzz: $name has no corpus: commit a few inputs to $corpus" >&2
    return 1
  fi
  mkdir -p "build/fuzz-new/$name"
  if ! "$build/tests/fuzz/$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
    -print_final_stats=1 -artifact_prefix="build/fuzz-crash-$name-" \
    "build/fuzz-new/$name" "$corpus" > "$log" 2>&1; then
    tail -n 60 "$log" >&2
    echo "fuzz: $name failed, see $log" >&2
    return 1
  fi
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  echo "fuzz: $name ok, $runs inputs in $seconds s"
}
export -f fuzz

printf '%s\0' "${sources[@]}" | xargs -0 -P "$jobs" -I{} bash -c 'fuzz "$(basename "$1" .cpp)"' _ {}
