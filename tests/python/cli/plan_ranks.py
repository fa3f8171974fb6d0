"""Ranks that measure at first use, and ranks that go by what was measured."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

import holdfast

SIZES = (16, 4096, 1 << 18)


def _check_ops(group: holdfast.Group) -> None:
    total = sum(r + 1 for r in group.live_ranks)
    for count in SIZES:
        for _ in range(2):
            data = np.full(count, group.rank + 1, np.float32)
            group.all_reduce(data)
            assert (data == total).all(), data[:4]
        data = np.full(count, group.rank + 1, np.float32)
        work = group.all_reduce(data, async_op=True)
        assert work is not None
        work.wait()
        assert (data == total).all()
        block = np.full(count, group.rank, np.int64)
        blocks = np.zeros(count * group.size, np.int64)
        group.all_gather(blocks, block)
        assert (blocks.reshape(group.size, count)[:, 0] == np.arange(group.size)).all()
        out = np.zeros(count * group.size, np.int64)
        group.all_to_all(out, blocks)
        assert (out.reshape(group.size, count) == group.rank).all()


def _write(group: holdfast.Group, name: str) -> None:
    Path(f"{name}{group.rank}").write_text(group.plan)


def tune() -> None:
    """Same tables on all ranks, which grow with the first use and not with the second."""
    with holdfast.init() as group:
        _check_ops(group)
        first = group.plan
        _check_ops(group)
        assert group.plan == first
        _write(group, "plan")


def use() -> None:
    """Goes by the file, and measures nothing."""
    with holdfast.init() as group:
        _check_ops(group)
        _write(group, "used")


def uneven() -> None:
    """Calls of which ranks see different sizes, between others: nobody chooses by them."""
    with holdfast.init() as group:
        rank, size = group.rank, group.size
        for scale in (64, 1024, 16_384):
            give = np.full(scale * (1 + 3 * rank) * size, rank, np.int64)
            counts = [scale * (1 + 3 * r) for r in range(size)]
            take = np.zeros(sum(counts), np.int64)
            group.all_to_all(take, give, counts, [give.size // size] * size)
            assert (take == np.repeat(np.arange(size), counts)).all()
            block = np.full(scale, rank, np.int64)
            blocks = np.zeros(scale * size, np.int64) if rank == 0 else None
            group.gather(blocks, block)
            if blocks is not None:
                assert (blocks.reshape(size, scale)[:, 0] == np.arange(size)).all()
            group.scatter(block, blocks)
            assert (block == rank).all()
            _check_ops(group)
        _write(group, "uneven")


def differ() -> None:
    """One rank tunes, the others do not: all are told."""
    if os.environ["RANK"] == "1":
        os.environ["HOLDFAST_TUNE"] = "1"
    try:
        holdfast.init()
    except holdfast.ConfigError as error:
        print(error)
        return
    raise AssertionError("was not refused")


def come_back() -> None:
    """A rank that knows nothing joins ranks that have measured."""
    back = Path("killed").exists()
    group = holdfast.init()
    if not back:
        _check_ops(group)
        group.barrier()
        if group.rank == 1:
            Path("killed").touch()
            print("ready", flush=True)
            os.kill(os.getpid(), 9)
    state = {"w": np.zeros(300_000, np.float32) if back else np.ones(300_000, np.float32)}
    if back:
        group.sync(state)
        group.advance()
    else:
        group.sync(state)
        while not group.advance().joined:
            pass
    assert (state["w"] == 1).all()
    _check_ops(group)
    _write(group, "back")
    group.close()
