"""Ranks whose arrays come from the pool."""

from __future__ import annotations

import os
import signal
import zlib

import numpy as np

import holdfast

COUNTS = (100, 16_400, 300_001, 2_000_000)


def _fill(array: np.ndarray, rank: int) -> np.ndarray:
    array[:] = np.random.default_rng(rank).standard_normal(array.size).astype(array.dtype)
    return array


def _run(group: holdfast.Group, count: int, make: object) -> list[np.ndarray]:
    n, rank = group.size, group.rank
    assert callable(make)
    whole = _fill(make(count), rank)
    group.all_reduce(whole)
    rooted = _fill(make(count), rank)
    group.reduce(rooted, root=n - 1, op="max")
    if rank != n - 1:
        rooted[:] = 0
    spread = _fill(make(count), rank)
    group.broadcast(spread, root=n - 1)
    blocks = _fill(make(count * n), rank)
    part = make(count)
    group.reduce_scatter(part, blocks)
    gathered = make(count * n)
    group.all_gather(gathered, part)
    exchanged = make(count * n)
    group.all_to_all(exchanged, blocks)
    return [whole, rooted, spread, part, gathered, exchanged]


def same_bits() -> None:
    """Pools of all ranks, of some, and of none."""
    with holdfast.init() as group:
        for count in COUNTS:
            plain = _run(group, count, lambda c: np.empty(c, np.float32))
            pooled = _run(group, count, lambda c: holdfast.empty(c, np.float32))
            mixed = _run(
                group,
                count,
                lambda c: (holdfast.empty if group.rank % 2 == 0 else np.empty)(c, np.float32),
            )
            for a, b, c in zip(plain, pooled, mixed, strict=True):
                assert a.tobytes() == b.tobytes()
                assert a.tobytes() == c.tobytes()
        # What was given back is used again by the next op at once.
        for i in range(200):
            a = holdfast.empty(50_000)
            a[:] = group.rank + i
            group.all_reduce(a)
            assert (a == sum(r + i for r in range(group.size))).all()


def lose_one() -> None:
    """Rank 2 dies between two parts of an op; the others print what they have."""
    group = holdfast.init()
    a = holdfast.empty(8_000_000)
    for _ in range(3):
        a[:] = 1 << group.rank
        group.all_reduce(a)
        assert (a == 15).all()
    a[:] = 1 << group.rank
    work = group.all_reduce(a, async_op=True)
    if group.rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    assert work is not None
    work.wait()
    assert set(np.unique(a)) <= {11, 15}, np.unique(a)
    told = zlib.crc32(a.tobytes())
    a[:] = 1 << group.rank
    group.all_reduce(a)
    assert (a == 11).all()
    print(told)
    group.close()


def torch_tensors() -> None:
    """The backend's allocate_tensor, and tensors of holdfast.empty."""
    import torch
    import torch.distributed as dist

    dist.init_process_group(
        "holdfast",
        init_method=f"file://{os.environ['MEETING_FILE']}",
        rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]),
    )
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    assert backend.supports_tensor_alloc(torch.device("cpu"))
    a = backend.allocate_tensor(1_000_000, dtype=torch.bfloat16, device=torch.device("cpu"))
    assert a.shape == (1_000_000,)
    assert a.dtype == torch.bfloat16
    a.fill_(dist.get_rank() + 1)
    dist.all_reduce(a)
    assert (a == 3).all()
    b = holdfast.empty((1000, 500), torch.float64)
    assert b.shape == (1000, 500)
    assert b.dtype == torch.float64
    b.fill_(dist.get_rank() + 1)
    dist.all_reduce(b)
    assert (b == 3).all()
    dist.destroy_process_group()
    assert (a == 3).all()
