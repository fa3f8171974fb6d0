"""What ranks do over a long path that breaks, stops and starts again."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np

import holdfast


def reduce_in_rounds() -> None:
    """Reduce in rounds and check each sum; say when a round begins, and what all of them took."""
    count, rounds = int(os.environ["COUNT"]), int(os.environ["ROUNDS"])
    pause = float(os.environ.get("PAUSE", "0"))
    with holdfast.init() as group:
        rank, size = group.rank, group.size
        group.barrier()
        print(f"ready {os.getpid()}", flush=True)
        epoch = group.epoch
        took = []
        for turn in range(rounds):
            data = np.full(count, rank + turn, np.float32)
            begun = time.monotonic()
            group.all_reduce(data)
            took.append(time.monotonic() - begun)
            assert (data == size * turn + size * (size - 1) // 2).all(), data[:4]
            if turn == 0:
                print("began", flush=True)
            time.sleep(pause)
        told = {"took": took, "epochs": group.epoch - epoch, "live": list(group.live_ranks)}
        group.barrier()
    print(json.dumps(told), flush=True)


def reduce_until_told() -> None:
    """Reduce until there is a file `stop`, and check each sum."""
    stop = Path(os.environ["HERE"]) / "stop"
    with holdfast.init() as group:
        rank, size = group.rank, group.size
        group.barrier()
        print(f"ready {os.getpid()}", flush=True)
        epoch, going, took = group.epoch, size, []
        while going == size:
            data = np.full(50_000, rank, np.float32)
            data[0] = 0 if stop.exists() else 1
            begun = time.monotonic()
            group.all_reduce(data)
            took.append(time.monotonic() - begun)
            assert (data[1:] == size * (size - 1) // 2).all(), data[:4]
            going = int(data[0])
        told = {"took": took, "epochs": group.epoch - epoch, "live": list(group.live_ranks)}
        group.barrier()
    print(json.dumps(told), flush=True)
