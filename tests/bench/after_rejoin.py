"""How fast ops are after a killed rank has come back, beside the same group before the loss.

``python tests/bench/after_rejoin.py [--ranks 2,4] [--api group,torch]`` starts worlds with
``holdfast run --respawn``; rank 1 of each kills itself after a first series, and a second one
follows its return. Prints JSON lines: medians over the ops of one series, on rank 0.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import holdfast

# Bytes of an all_reduce of f32, and how many of them make a series.
SERIES = {8: 3000, 4 << 10: 3000, 64 << 10: 1000, 1 << 20: 200, 16 << 20: 20}
WARM_UP = 10


def measure(reduce: Callable[[np.ndarray], None]) -> dict[int, float]:
    """Return the median microseconds of each size."""
    medians = {}
    for size, count in SERIES.items():
        data = np.zeros(size // 4, np.float32)
        times = []
        for op in range(WARM_UP + count):
            begun = time.perf_counter()
            reduce(data)
            if op >= WARM_UP:
                times.append(time.perf_counter() - begun)
        medians[size] = 1e6 * statistics.median(times)
    return medians


def measure_warm(reduce: Callable[[np.ndarray], None]) -> dict[int, float]:
    """Measure once for nothing: the first ops of a group find cold memory, whenever it began."""
    measure(reduce)
    return measure(reduce)


def series(
    rank: int, advance: Callable[[], holdfast.View], reduce: Callable[[np.ndarray], None]
) -> None:
    """Measure, lose rank 1, wait for it, and measure again."""
    ever = Path("rank-1-has-died")
    before = {} if ever.exists() else measure_warm(reduce)
    if rank == 1 and not ever.exists():
        ever.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    while not advance().joined:
        time.sleep(0.01)
    after = measure_warm(reduce)
    for size, us in before.items() if rank == 0 else ():
        row = {"bytes": size, "before_us": round(us, 1), "after_us": round(after[size], 1)}
        print("ROW", json.dumps({**row, "ratio": round(after[size] / us, 2)}), flush=True)


def by_group() -> None:
    """Be a rank of a `Group`."""
    with holdfast.init() as group:
        series(group.rank, group.advance, lambda data: group.all_reduce(data) and None)


def by_torch() -> None:
    """Be a rank of torch's default process group."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("holdfast")
    series(
        dist.get_rank(),
        holdfast.advance,
        lambda data: dist.all_reduce(torch.from_numpy(data)) and None,
    )
    dist.destroy_process_group()


def main() -> int:
    """Start the worlds, or be a rank of one."""
    if "AFTER_REJOIN_API" in os.environ:
        {"group": by_group, "torch": by_torch}[os.environ["AFTER_REJOIN_API"]]()
        return 0
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--api", default="group,torch")
    options = parser.parse_args()
    for api in options.api.split(","):
        for ranks in options.ranks.split(","):
            with tempfile.TemporaryDirectory(prefix="holdfast-rejoin-") as folder:
                command = [sys.executable, "-m", "holdfast.cli", "run", "-n", ranks, "--respawn"]
                done = subprocess.run(
                    [*command, str(Path(__file__).resolve())],
                    cwd=folder,
                    env={**os.environ, "AFTER_REJOIN_API": api, "OMP_NUM_THREADS": "1"},
                    capture_output=True,
                    text=True,
                    timeout=300,
                    check=False,
                )
            rows = [line.partition("ROW ")[2] for line in done.stdout.splitlines() if "ROW" in line]
            if done.returncode != 0 or len(rows) != len(SERIES):
                sys.stderr.write(done.stdout + done.stderr)
                return 1
            for row in rows:
                print(json.dumps({"api": api, "ranks": int(ranks), **json.loads(row)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
