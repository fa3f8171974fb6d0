"""How long an urgent op waits behind bulk ones over sockets of one host.

    python tests/bench/urgent.py --bulks 1 --kibibytes 256

Prints Markdown, in milliseconds, median and least of the rounds: an all_reduce of so many KiB of
two ranks alone; the same, called 4 ms after asynchronous ones of 64 MiB each, without a priority
and with one; the time until the bulk ones have ended beside it; and what these take by themselves.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python/support"))

import numpy as np
from ranks import finish, start_rank

BULK_ELEMENTS = 16 << 20
LEAD_S = 0.004
WARM = 2
LIMIT_S = 300.0
ROWS = ("alone", "without priority", "priority=5", "all of that", "bulk alone")


def in_turns() -> None:
    import holdfast

    bulks = [np.zeros(BULK_ELEMENTS, np.float32) for _ in range(int(os.environ["BENCH_BULKS"]))]
    small = np.zeros(int(os.environ["BENCH_BYTES"]) // 4, np.float32)
    took: dict[str, list[float]] = {row: [] for row in ROWS}
    with holdfast.init() as group:
        for turn in range(int(os.environ["BENCH_ROUNDS"]) * 4):
            row = ("alone", "without priority", "priority=5", "bulk alone")[turn % 4]
            group.barrier()
            begun = time.perf_counter()
            works = [] if row == "alone" else [group.all_reduce(b, async_op=True) for b in bulks]
            while works and time.perf_counter() - begun < LEAD_S:
                pass
            called = begun if row == "bulk alone" else time.perf_counter()
            if row != "bulk alone":
                group.all_reduce(small, priority=5 if row == "priority=5" else 0)
                took[row].append(time.perf_counter() - called)
            for work in works:
                work.wait()
            if row == "bulk alone":
                took[row].append(time.perf_counter() - called)
            if row == "priority=5":
                took["all of that"].append(time.perf_counter() - begun)
    print("TOLD", json.dumps({name: times[WARM:] for name, times in took.items()}), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bulks", type=int, default=1)
    parser.add_argument("--kibibytes", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=11)
    arguments = parser.parse_args()
    env = {
        "HOLDFAST_TRANSPORTS": "tcp",
        "BENCH_BULKS": str(arguments.bulks),
        "BENCH_BYTES": str(arguments.kibibytes << 10),
        "BENCH_ROUNDS": str(arguments.rounds),
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
    }
    with tempfile.TemporaryDirectory() as here:
        at = ("urgent", "in_turns")
        processes = [start_rank(*at, rank, 2, Path(here), env, fresh=True) for rank in range(2)]
        outcomes = finish(processes, LIMIT_S)
    failed = "\n".join(o.output for o in outcomes if o.status != 0)
    if failed:
        raise RuntimeError(failed)
    (line,) = [x for x in outcomes[0].output.splitlines() if x.startswith("TOLD ")]
    took = json.loads(line.removeprefix("TOLD "))
    print("| | median ms | least ms |\n|---|---|---|")
    for row in ROWS:
        print(f"| {row} | {1e3 * statistics.median(took[row]):.2f} | {1e3 * min(took[row]):.2f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
