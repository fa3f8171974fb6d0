#!/usr/bin/env bash
# Runs the Python tests in two processes, at the same time if JOBS is two or more: most tests wait
# for each other's ranks, so that one process leaves a core idle. `timed` has the tests that assert
# on times or rates, shape networks or keep processors busy: they never run beside each other.
# `others` has everything else, new folders too. Each has a log, build/logs/pytest-NAME.log.
# Usage: .ci/pytest.sh PYTEST JOBS
set -euo pipefail

export pytest=$1
jobs=$2
export root=$PWD

# In tests/python; chosen so that neither process is alone for long.
export timed="membership transports secure health group
  topology/test_discover.py topology/test_measure.py topology/test_measure_links.py
  cli/test_bench.py compress/test_codec_cost.py outer/test_auto_codec.py
  state/test_hindrances.py state/test_power_loss.py state/test_snapshots.py"

# A folder of its own to be in, empty, so that nothing of the repository can shadow the wheel; and a
# cache of its own: pytest writes the whole list of what failed last.
run() {
  set -euo pipefail
  local name=$1 path paths=()
  for path in $timed; do paths+=("$root/tests/python/$path"); done
  if [ "$name" = others ]; then paths=("$root/tests" "${paths[@]/#/--ignore=}"); fi
  mkdir -p "$root/build/empty-$name"
  cd "$root/build/empty-$name"
  "$pytest" -c "$root/pyproject.toml" -o cache_dir="build/pytest-$name" --durations=25 \
    "${paths[@]}" 2>&1 | tee "$root/build/logs/pytest-$name.log" | sed -u "s/^/$name: /"
}
export -f run

mkdir -p build/logs
rm -f build/logs/pytest*.log
status=0
printf '%s\0' timed others | xargs -0 -P "$jobs" -I{} bash -c 'run "$1"' _ {} || status=$?

# Above, lines of both lie between each other.
for log in build/logs/pytest-{timed,others}.log; do
  echo "$log:"
  end=$(grep -E ' (passed|failed)' "$log" | tail -n 1 || true)
  if [[ $end == *passed* && ! $end =~ failed|error ]]; then echo "$end"; else tail -n 60 "$log"; fi
done
exit $status
