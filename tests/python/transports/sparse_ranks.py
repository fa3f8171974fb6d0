"""Ranks of a sparse world: who is connected before an op needs it, and what the ops give."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import numpy as np

import holdfast


def sockets() -> int:
    """How many sockets this process has open."""
    files = Path("/proc/self/fd").iterdir()
    # The listing's own has gone by now.
    return sum(fd.is_symlink() and str(fd.readlink()).startswith("socket:") for fd in files)


def call_and_lose() -> None:
    """Call ops of every kind; lose the ranks of LOST, one by one; tell sums and sockets."""
    lost = [int(rank) for rank in os.environ["LOST"].split(",")]
    with holdfast.init() as group:
        rank, size = group.rank, group.size
        first = sockets()
        data = np.full(100_000, rank + 1.0)
        group.all_reduce(data)
        sums = [float(data[0])]
        after_sum = sockets()
        swapped = np.empty(size)
        group.all_to_all(swapped, np.full(size, float(rank)))
        assert swapped.tolist() == list(range(size)), swapped
        after_all = sockets()
        opposite = size - 1 - rank
        word, heard = np.full(3, float(rank)), np.full(3, float(opposite))
        if rank < opposite:
            group.send(word, opposite)
            group.recv(heard, opposite)
        elif rank > opposite:
            group.recv(heard, opposite)
            group.send(word, opposite)
        assert heard.tolist() == [opposite] * 3
        for victim in lost:
            group.barrier()
            if rank == victim:
                os.kill(os.getpid(), signal.SIGKILL)
            # The next op has it missing: who was in it is known when it has ended.
            data = np.full(1000, rank + 1.0)
            group.all_reduce(data)
            data = np.full(100_000, rank + 1.0)
            group.all_reduce(data)
            sums.append(float(data[-1]))
        told = {"sums": sums, "live": list(group.live_ranks)}
        told["sockets"] = [first, after_sum, after_all]
        group.barrier()
    Path(f"told{rank}.json").write_text(json.dumps(told))
