"""What ranks do that play several hosts, by HOLDFAST_HOST_ID, each test its own layout."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np

import holdfast


def collectives() -> None:
    hosts = os.environ["HOSTS"].split(",")
    algorithm = os.environ.get("HOLDFAST_ALGORITHM", "")
    with holdfast.init() as group:
        me, n = group.rank, group.size
        for r in range(n):
            expected = "self" if r == me else "shm" if hosts[r] == hosts[me] else "tcp"
            assert group.transports[r] == expected, (r, group.transports)
        for count in (1, 1000, 300_001):
            a = np.full(count, me + 1.0)
            group.all_reduce(a)
            assert (a == n * (n + 1) / 2).all(), (algorithm, count)
            root = count % n
            b = np.full(count, float(me))
            group.broadcast(b, root=root)
            assert (b == root).all()
            gathered = np.empty(n * count)
            group.all_gather(gathered, np.full(count, float(me)))
            assert (gathered.reshape(n, count) == np.arange(n)[:, None]).all()
            part = np.empty(count)
            group.reduce_scatter(part, np.repeat(np.arange(n) + me, count).astype(float))
            assert (part == n * me + n * (n - 1) / 2).all()
            c = np.full(count, me + 1.0)
            group.reduce(c, root=root)
            assert me != root or (c == n * (n + 1) / 2).all()
        group.barrier()


def until_a_loss() -> None:
    """Reduce until a rank is lost; say when the first op without it had ended."""
    group = holdfast.init()
    data = np.zeros(16_384, np.float32)
    print("ready", flush=True)
    while True:
        group.all_reduce(data)
        outcome = group.outcome
        assert outcome is not None
        if outcome.epoch > 1 and outcome.missing:
            told = {"end": time.monotonic(), "missing": outcome.missing}
            print(json.dumps(told), flush=True)
            break
    group.barrier()
    try:
        group.close(2)
    except holdfast.Unconfirmed as error:
        print(json.dumps({"in_doubt": list(error.ranks)}), flush=True)


def comes_back() -> None:
    """Reduce at each boundary until there is a file `stop`; who is voted out joins again.

    For a minute at most.
    """
    until = time.monotonic() + 60
    size = int(os.environ["WORLD_SIZE"])
    group = holdfast.join(os.environ["URL"], min_peers=size)
    print("ready", flush=True)
    sizes = [size]
    going = np.ones(2, np.int64)
    while going[0] == going[1]:
        try:
            group.advance()
            going[:] = not Path("stop").exists() and time.monotonic() < until, 1
            group.all_reduce(going)
            assert group.outcome is not None
            assert going[1] == size - len(group.outcome.missing), (going, group.outcome)
        except holdfast.NotMember:
            print("OUT", flush=True)
            group = holdfast.join(os.environ["URL"])
        if len(group.live_ranks) != sizes[-1]:
            sizes.append(len(group.live_ranks))
            print("SIZES", *sizes, flush=True)
    group.leave()


def until_told() -> None:
    """Reduce, in turns of these SIZES, until there is a file `stop`; say how late the latest was.

    With OPS, so many instead.
    """
    sizes = [int(size) for size in os.environ["SIZES"].split(",")]
    limit = int(os.environ.get("OPS", "0"))
    group = holdfast.init()
    me, n = group.rank, group.size
    print("ready", flush=True)
    latest = 0.0
    ops = 0
    going = np.ones(1, np.int64)
    while going[0] > 0:
        data = np.full(sizes[ops % len(sizes)] // 8, (me + 1) * (ops + 1), np.int64)
        going[0] = ops < limit if limit else not Path("stop").exists()
        for what in (going, data):
            began = time.monotonic()
            group.all_reduce(what)
            latest = max(latest, time.monotonic() - began)
        assert (data == n * (n + 1) // 2 * (ops + 1)).all(), (ops, data[:4])
        ops += 1
    told = {"epoch": group.epoch, "ops": ops, "latest": latest, "live": list(group.live_ranks)}
    print(json.dumps(told), flush=True)
    group.barrier()
    group.close()
