"""Ranks of tests/bench/device_paths.py: all_reduce on device memory by each path, timed."""

from __future__ import annotations

import json
import os
import statistics
import time

import numpy as np
from gpu_array import GpuArray, staged

import holdfast

WARM_UP = 6
ROUNDS = 10


def _copied_per_second(size: int) -> float:
    """Bytes read and written by time, of a copy inside the device, with nobody else on it."""
    a = GpuArray(np.ones(size, np.uint8), shared=True)
    b = GpuArray(np.ones(size, np.uint8), shared=True)
    times = []
    for _ in range(WARM_UP + ROUNDS):
        began = time.perf_counter()
        a.copy_from(b)
        times.append(time.perf_counter() - began)
    return 2 * size / statistics.median(times[WARM_UP:])


def _seconds(group: holdfast.Group, size: int) -> float:
    count = size // 4
    codec = os.environ["PATH_CODEC"] or None
    give = GpuArray(np.full(count, group.rank + 1, np.float32), shared=True)
    times = []
    for _ in range(WARM_UP + ROUNDS):
        group.barrier()
        began = time.perf_counter()
        group.all_reduce(give, op="avg", codec=codec)
        times.append(time.perf_counter() - began)
    assert np.allclose(give.get(), (group.size + 1) / 2, rtol=0.05 if codec else 1e-5)
    slowest = np.array([statistics.median(times[WARM_UP:])])
    group.all_reduce(slowest, op="max")
    return float(slowest[0])


def measure() -> None:
    """Prints a row for each size: what the path takes, and what copies of its bytes would."""
    with holdfast.init() as group:
        for size in map(int, os.environ["SIZES"].split(",")):
            rate = np.zeros(1)
            if group.rank == 0:
                rate[0] = _copied_per_second(size)
            group.all_reduce(rate, op="max")
            seconds = _seconds(group, size)
            n = group.size
            # What all ranks read and write when the result replaces the input (direct_plan.h).
            moved = n * (n + 3) * size if n == 2 else (5 * n - 1) * size
            if group.rank == 0:
                row = {
                    "name": "all_reduce on device memory",
                    "path": os.environ["PATH_NAME"],
                    "codec": os.environ["PATH_CODEC"],
                    "ranks": n,
                    "bytes": size,
                    "time_us": round(seconds * 1e6, 1),
                    "algbw": round(size / seconds / 1e9, 3),
                    "busbw": round(size / seconds / 1e9 * 2 * (n - 1) / n, 3),
                    "copy_gb_s": round(rate[0] / 1e9, 3),
                    "of_copy_bound": round(moved / rate[0] / seconds, 3),
                    "peer_mappings": staged().peer_mappings,
                }
                print("ROW " + json.dumps(row))
