"""Programs of test_ucx.py: each function is one rank, started with RANK and WORLD_SIZE."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import numpy as np

import holdfast
from holdfast import Group

# Around what is sent without a grant, what fits a frame, and what is several.
ELEMENTS = (0, 1, 5, 1024, 16_384, 16_385, 131_072, 140_001, 2_097_152)


def equal(found: np.ndarray, wanted: np.ndarray) -> None:
    assert np.array_equal(found, wanted)


def block(rank: int, count: int) -> np.ndarray:
    return (np.arange(count) % 97 + 100 * rank).astype(np.float32)


def all_kinds(group: Group, count: int) -> None:
    """Call every collective with blocks of `count` elements."""
    n, me, last = group.size, group.rank, group.size - 1
    everybody = np.concatenate([block(r, count) for r in range(n)])
    total = np.sum([block(r, count) for r in range(n)], axis=0, dtype=np.float32)

    a = block(me, count)
    group.all_reduce(a)
    equal(a, total)
    out = np.zeros(count, np.float32)
    group.reduce_scatter(out, np.concatenate([block(r + me, count) for r in range(n)]))
    equal(out, np.sum([block(r + me, count) for r in range(n)], axis=0, dtype=np.float32))
    whole = np.zeros(n * count, np.float32)
    group.all_gather(whole, block(me, count))
    equal(whole, everybody)
    group.all_to_all(whole, np.concatenate([block(10 * me + r, count) for r in range(n)]))
    equal(whole, np.concatenate([block(10 * r + me, count) for r in range(n)]))
    a = block(me, count)
    group.broadcast(a, root=last)
    equal(a, block(last, count))
    a = block(me, count)
    group.reduce(a, root=0)
    equal(a, total if me == 0 else block(me, count))
    gathered = np.zeros(n * count, np.float32) if me == last else None
    group.gather(gathered, block(me, count), root=last)
    if gathered is not None:
        equal(gathered, everybody)
    group.scatter(out, everybody if me == 0 else None, root=0)
    equal(out, block(me, count))
    sent = group.send(block(me, count), (me + 1) % n, async_op=True)
    group.recv(out, (me - 1) % n)
    equal(out, block((me - 1) % n, count))
    assert sent is not None
    sent.wait()
    group.barrier()


def links() -> None:
    """Check what carries: TRANSPORTS, one for each rank."""
    with holdfast.init() as group:
        rows = os.environ["TRANSPORTS"].split(";")
        assert list(group.transports) == rows[group.rank].split(","), group.transports
        for count in ELEMENTS:
            all_kinds(group, count)


def every_size() -> None:
    with holdfast.init() as group:
        assert set(group.transports) == {"ucx", "self"}, group.transports
        for count in ELEMENTS:
            all_kinds(group, count)


def many_at_once() -> None:
    """Small ones overtake large ones at UCX, and still nothing is mixed up."""
    with holdfast.init() as group:
        n, me = group.size, group.rank
        for _ in range(10):
            arrays = [block(me, (7 * i) % 40 + (200_000 if i % 4 == 1 else 0)) for i in range(24)]
            works = [group.all_reduce(a, async_op=True) for a in arrays]
            for work in works:
                assert work is not None
                work.wait()
            for a in arrays:
                equal(a, np.sum([block(r, a.size) for r in range(n)], axis=0, dtype=np.float32))


def several_groups() -> None:
    """Two groups in one world, one after the other and at the same time."""
    with holdfast.init(name="first") as first, holdfast.init(name="second") as second:
        arrays = [block(first.rank, 100_000), block(second.rank, 300_000)]
        works = [
            g.all_reduce(a, async_op=True) for g, a in zip((first, second), arrays, strict=True)
        ]
        for work, a in zip(works, arrays, strict=True):
            assert work is not None
            work.wait()
            equal(a, np.sum([block(r, a.size) for r in range(first.size)], axis=0))
    for i in range(5):
        with holdfast.init(name=f"again{i}") as group:
            all_kinds(group, 1000)


def exit_without_close() -> None:
    group = holdfast.init()
    all_kinds(group, 200_000)
    group.barrier()
    print("done", flush=True)


def signals_stay() -> None:
    """UCX would have the signals of a crash, and SIGHUP."""
    signal.signal(signal.SIGFPE, lambda *_: print("ours", flush=True))

    def caught() -> int:
        status = Path("/proc/self/status").read_text().splitlines()
        line = next(line for line in status if line.startswith("SigCgt"))
        return int(line.split()[1], 16) & 0x7FFFFFFF  # those above are the C library's

    before = caught()
    with holdfast.init() as group:
        all_kinds(group, 10)
        assert caught() == before, (caught(), before)
        os.kill(os.getpid(), signal.SIGFPE)
    assert caught() == before


def refused() -> None:
    """Say why there is no group."""
    try:
        holdfast.init()
    except holdfast.ConfigError as error:
        print("REFUSED", error, flush=True)
        return
    sys.exit("not refused")
