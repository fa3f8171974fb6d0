"""All-reduce of Holdfast beside gloo: one run, interleaved, medians, JSON lines.

Every sample is one blocking call of dist.all_reduce on every rank, right after a barrier of the
same group; the time is the slowest rank's. The ratio is Holdfast's time by gloo's: below 1 is
faster. Nothing here judges.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

SIZES = (4 << 10, 1 << 20, 64 << 20)


def samples_for(size: int, scale: float) -> int:
    return max(5, int(scale * (200 if size <= 1 << 14 else 60 if size <= 1 << 22 else 12)))


def one_call(tensor: torch.Tensor, group: dist.ProcessGroup) -> float:
    dist.barrier(group=group)
    start = time.perf_counter()
    dist.all_reduce(tensor, group=group)
    return time.perf_counter() - start


def measure(rank: int, ranks: int, meeting: str, scale: float, results: str) -> None:
    import holdfast

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks)
    groups = {"gloo": dist.group.WORLD}
    for transport in ("shm", "tcp"):
        options = holdfast.Options(transports=(transport,))
        groups[transport] = dist.new_group(backend="holdfast", pg_options=options)
    rows = []
    for size in SIZES:
        tensor = torch.zeros(size // 4)
        times: dict[str, list[float]] = {name: [] for name in groups}
        for index in range(samples_for(size, scale) + 2):
            for name, group in groups.items():
                seconds = one_call(tensor, group)
                if index >= 2:  # the first calls warm up
                    times[name].append(seconds)
        for name in groups:
            slowest = torch.tensor(times[name])
            dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
            rows.append((name, size, statistics.median(slowest.tolist())))
    if rank == 0:
        Path(results).write_text(json.dumps(rows))
    dist.destroy_process_group()


def commit() -> str:
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return described.stdout.strip() or "unknown"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--scale", type=float, default=1.0, help="times the number of samples")
    arguments = parser.parse_args()
    name = commit()
    for ranks in arguments.ranks:
        with tempfile.TemporaryDirectory() as folder:
            results = f"{folder}/rows"
            mp.spawn(
                measure,
                args=(ranks, f"{folder}/meeting", arguments.scale, results),
                nprocs=ranks,
            )
            rows = json.loads(Path(results).read_text())
        gloo = {size: seconds for group, size, seconds in rows if group == "gloo"}
        for group, size, seconds in rows:
            algbw = size / seconds / 1e9
            line = {
                "name": "all_reduce" if group == "gloo" else f"all_reduce/{group}",
                "ranks": ranks,
                "bytes": size,
                "algbw": round(algbw, 3),
                "busbw": round(algbw * 2 * (ranks - 1) / ranks, 3),
                "time_us": round(seconds * 1e6, 1),
                "peer": "gloo",
                "ratio": round(seconds / gloo[size], 3),
                "commit": name,
            }
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    sys.exit(main())
