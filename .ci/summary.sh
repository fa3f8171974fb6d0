#!/usr/bin/env bash
# Prints the counts of the last runs from their logs.
set -euo pipefail

line() { # line LOG PATTERN: the last line of the log that matches
  local log=build/logs/$1.log
  if [ -e "$log" ]; then printf '%-8s %s\n' "$1" "$(grep -E "$2" "$log" | tail -n 1)"; fi
}
total() { # total NAME: what pytest counted at the ends of the logs NAME-*, added; the time of each
  local log
  for log in build/logs/"$1"-*.log; do
    if [ ! -e "$log" ]; then continue; fi
    grep -E ' (passed|failed)' "$log" | tail -n 1 || echo '1 unfinished'
  done | awk -v name="$1" '
    function of(what) { return sum[what] ? sum[what] " " what ", " : "" }
    {
      for (i = 2; i <= NF; i++) {
        sub(",", "", $i)
        if ($(i - 1) ~ /^[0-9]+$/) sum[$i] += $(i - 1)
        if ($(i - 1) == "in") times = times (times ? " + " : "") $i
      }
    }
    END {
      counts = of("unfinished") of("failed") of("error") of("errors")
      counts = counts of("passed") of("skipped")
      if (NR) printf "%-8s %sin %s\n", name, counts, times
    }'
}
line ctest '% tests passed'
line asan '% tests passed'
line tsan '% tests passed'
line fuzz '^fuzz:'
line tidy ' (passed|failed)'
total pytest
