#!/usr/bin/env bash
# Prints the counts of the last runs from their logs.
set -euo pipefail

line() { # line LOG PATTERN: the last line of the log that matches
  local log=build/logs/$1.log
  if [ -e "$log" ]; then printf '%-8s %s\n' "$1" "$(grep -E "$2" "$log" | tail -n 1)"; fi
}
line ctest '% tests passed'
line asan '% tests passed'
line tsan '% tests passed'
line fuzz '^fuzz:'
line tidy ' (passed|failed)'
line pytest ' (passed|failed)'
