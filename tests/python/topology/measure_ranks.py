"""Programs of test_measure_links.py and of a benchmark: each function is one rank."""

from __future__ import annotations

import json
import os
import signal
import threading
import time

import numpy as np

import holdfast
from holdfast.topology.measure import measure


def _told(group: holdfast.Group, hosts: list[int], budget: float) -> None:
    group.barrier()
    start = time.monotonic()
    text = measure(group, budget, hosts)
    seconds = time.monotonic() - start
    print("MAP", json.dumps({"seconds": seconds, "map": json.loads(text)}), flush=True)


def measure_links() -> None:
    """Every rank is a host of its own, or as HOST_OF says."""
    with holdfast.init(options=holdfast.Options.from_env()) as group:
        given = json.loads(os.environ.get("HOST_OF", "null"))
        _told(group, given or list(range(group.size)), float(os.environ["BUDGET"]))
        group.barrier()


def lose_one() -> None:
    """Rank 1 is killed at a moment of the test's choice."""
    group = holdfast.init(options=holdfast.Options.from_env())
    group.barrier()
    if group.rank == 1:
        after = float(os.environ["KILL_AFTER"])
        threading.Timer(after, os.kill, (os.getpid(), signal.SIGKILL)).start()
    try:
        _told(group, list(range(group.size)), 2.0)
    except holdfast.PeerLost as error:
        print("LOST", list(error.ranks), flush=True)
    if group.rank != 1:
        group.close()
        return
    # It ends before it has left, so that the others lose it if they have not yet.
    threading.Event().wait()


def discover_links() -> None:
    with holdfast.init() as group:
        known = group.discover()
        array = np.full(100_000, group.rank + 1.0, np.float32)
        group.all_reduce(array)
        assert array[0] == 6.0
        print("MAP", json.dumps(known), flush=True)
