"""What ranks do that are started more than once over the same store, or meet there again."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch_world import join

import holdfast

# Ranks that are to be killed do not outlive the test.
LONG_S = 60.0


def stay() -> None:
    """Sum once, say so, and wait to be killed; the last life ends by itself."""
    with holdfast.init() as group:
        data = np.ones(1000, np.float32)
        group.all_reduce(data)
        assert data[0] == group.size
        print("ready", flush=True)
        if os.environ["LAST"] != "1":
            time.sleep(LONG_S)


def stay_with_torch() -> None:
    """The same with torch's store, and with a group of some ranks."""
    rank, size = join()
    sum_over(dist.new_group([0, 1]), 2, rank < 2)
    sum_over(None, size)
    print("ready", flush=True)
    if os.environ["LAST"] != "1":
        time.sleep(LONG_S)
    dist.destroy_process_group()


def sum_over(group: Any, size: int, is_member: bool = True) -> None:
    if not is_member:
        return
    t = torch.ones(1000)
    dist.all_reduce(t, group=group)
    assert (t == size).all(), (float(t[0]), size)


def pass_boundaries(size: int) -> None:
    """Advance, all at the same steps, until somebody has come and nobody is missing."""
    deadline = time.monotonic() + LONG_S
    while True:
        assert time.monotonic() < deadline
        came = torch.tensor([len(holdfast.advance().joined)])
        dist.all_reduce(came, op=dist.ReduceOp.MAX)
        if came[0] and len(holdfast.torch.live_ranks()) == size:
            break
        time.sleep(0.01)


def advance_until_all_are_there() -> None:
    """Pass boundaries until every rank is there; sum in a group that was made before the loss."""
    size = join()[1]
    part = dist.new_group(list(range(size)))
    print("ready", flush=True)
    pass_boundaries(size)
    sum_over(part, size)
    # Made anew, by processes that have made different numbers of groups.
    sum_over(dist.new_group(list(range(size)), use_local_synchronization=True), size)
    dist.destroy_process_group()


def pairs(size: int) -> Iterator[list[int]]:
    yield from ([r, r + 1] for r in range(0, size, 2))


def meet_again_and_again() -> None:
    """Groups of groups, of some ranks only, made twice, destroyed and made again; worlds, too."""
    for _ in range(3):
        rank, size = join()
        halves, _ = dist.new_subgroups(group_size=size // 2)
        # Ranks of different halves give different groups the same number.
        singles, _ = dist.new_subgroups(group_size=1, group=halves)
        sum_over(halves, size // 2)
        sum_over(singles, 1)
        for _ in range(3):
            (mine,) = (pair for pair in pairs(size) if rank in pair)
            part = dist.new_group(mine, use_local_synchronization=True)
            sum_over(part, 2)
            dist.destroy_process_group(part)
        twice = [dist.new_group([0, size - 1]) for _ in range(2)]
        for group in twice:
            sum_over(group, 2, rank in (0, size - 1))
        sum_over(None, size)
        dist.destroy_process_group()


def meet_again_with_other_options() -> None:
    """A world, then another one with a runtime of its own, then the first one's again."""
    for codec in ("", "bf16", ""):
        with holdfast.init(options=holdfast.Options(codec=codec)) as group:
            data = np.ones(1000, np.float32)
            group.all_reduce(data)
            assert data[0] == group.size


def new_group_after_loss() -> None:
    """Rank 2 dies while the others make a group, or before that; they make it without it."""
    rank, size = join()
    # A rank that was started again finds the file.
    if rank == 2 and not Path("died").exists():
        Path("died").touch()
        if os.environ["WHEN"].isdigit():
            # At some moment of the making, in which it takes part.
            after_s = int(os.environ["WHEN"]) / 1000
            threading.Timer(after_s, os.kill, (os.getpid(), 9)).start()
            dist.new_group(list(range(size)))
            time.sleep(LONG_S)
        if os.environ["WHEN"] == "in the middle":
            # The others are on their way; torch's store tells when all of them are.
            store = dist.distributed_c10d._get_default_store()
            store.wait([f"comes {r}" for r in range(size) if r != 2])
        os.kill(os.getpid(), 9)
    survive(rank, size) if rank != 2 else come_back(rank, size)


def survive(rank: int, size: int) -> None:
    if os.environ["WHEN"] == "in the middle":
        dist.distributed_c10d._get_default_store().set(f"comes {rank}", "1")
    if os.environ["WHEN"] == "before":
        t = torch.ones(1000)
        while t[0] != size - 1:
            t.fill_(1)
            dist.all_reduce(t)
    began = time.monotonic()
    group = dist.new_group(list(range(size)), timeout=timedelta(seconds=20))
    print(f"made in {time.monotonic() - began:.2f} s", flush=True)
    t = torch.ones(1000)
    work = dist.all_reduce(t, group=group, async_op=True)
    work.wait()
    assert (t == size - 1).all(), float(t[0])
    assert holdfast.outcome(work).missing == (2,), holdfast.outcome(work)
    assert holdfast.torch.live_ranks(group) == (0, 1, 3)
    print("ready", flush=True)
    pass_boundaries(size)
    sum_over(group, size)
    dist.destroy_process_group()


def come_back(rank: int, size: int) -> None:
    group = dist.new_group(list(range(size)), timeout=timedelta(seconds=20))
    holdfast.advance()
    dist.all_reduce(torch.tensor([1]), op=dist.ReduceOp.MAX)
    sum_over(group, size)
    dist.destroy_process_group()


def new_group_raises_after_loss() -> None:
    """With on_peer_loss=raise: PeerLost at once, and a group of the survivors works."""
    rank, size = join()
    if rank == 2:
        os.kill(os.getpid(), 9)
    try:
        while True:
            dist.all_reduce(torch.ones(1000))
    except holdfast.PeerLost:
        pass
    began = time.monotonic()
    try:
        dist.new_group(list(range(size)))
    except holdfast.PeerLost as error:
        assert error.ranks == (2,), error.ranks
        assert "rank 2" in str(error), error
    else:
        raise AssertionError("a group with a vacant place was made")
    assert time.monotonic() - began < 5
    sum_over(dist.new_group([r for r in range(size) if r != 2]), size - 1)
    dist.destroy_process_group()
