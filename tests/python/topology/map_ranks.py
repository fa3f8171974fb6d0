"""Programs of test_map_groups.py: each function is one rank, started with RANK and WORLD_SIZE."""

from __future__ import annotations

import os
import signal

import numpy as np

import holdfast

# So much that trees are the fastest, and no multiple of anything.
LARGE = 300_007


def own(rank: int, count: int, dtype: type) -> np.ndarray:
    return (np.arange(count) % 13 + rank).astype(dtype)


def total(ranks: list[int], count: int, dtype: type) -> np.ndarray:
    return sum((own(rank, count, dtype) for rank in ranks), np.zeros(count, dtype))


def algorithm_of_last_op(group: holdfast.Group) -> str:
    last = max(group.flight()["entries"], key=lambda entry: entry["number"])
    return last["algorithm"]


def run_blocks(group: holdfast.Group, everybody: list[int]) -> None:
    """What has a block for every rank."""
    self = everybody[group.rank]
    for count in (LARGE, 3):
        blocks = np.concatenate([own(self + r, count, np.float32) for r in range(group.size)])
        mine = np.empty(count, np.float32)
        group.reduce_scatter(mine, blocks)
        shifted = [rank + group.rank for rank in everybody]
        assert np.array_equal(mine, total(shifted, count, np.float32))
        whole = np.empty(count * group.size, np.float32)
        group.all_gather(whole, own(self, count, np.float32))
        expected = np.concatenate([own(rank, count, np.float32) for rank in everybody])
        assert np.array_equal(whole, expected)


def run_all(group: holdfast.Group, everybody: list[int]) -> None:
    """All that goes by a map, and what does not, one after the other, and at once."""
    self = everybody[group.rank]
    for dtype, count in ((np.float32, LARGE), (np.int64, LARGE), (np.float64, 3)):
        array = own(self, count, dtype)
        group.all_reduce(array)
        assert np.array_equal(array, total(everybody, count, dtype))
        if group.size > 2:
            assert (algorithm_of_last_op(group) == "forest") is (count == LARGE)
        for root in (0, group.size - 1):
            array = own(self, count, dtype)
            group.broadcast(array, root=root)
            assert np.array_equal(array, own(everybody[root], count, dtype))
            array = own(self, count, dtype)
            group.reduce(array, root=root)
            if group.rank == root:
                assert np.array_equal(array, total(everybody, count, dtype))
    run_blocks(group, everybody)
    arrays = [own(self, LARGE, np.float32) for _ in range(6)]
    works = [group.all_reduce(array, op="avg", async_op=True) for array in arrays]
    for work, array in zip(works, arrays, strict=True):
        work.wait()
        expected = total(everybody, LARGE, np.float32) / np.float32(group.size)
        assert np.allclose(array, expected, rtol=1e-6)


def run_everything() -> None:
    with holdfast.init() as group:
        everybody = list(range(group.size))
        run_all(group, everybody)
        group.barrier()


def run_torch_groups() -> None:
    """Groups of some ranks: each goes by its part of the map."""
    import torch
    import torch.distributed as dist

    path = os.environ["MEETING_FILE"]
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("holdfast", init_method=f"file://{path}", rank=rank, world_size=size)
    for ranks in ([0, size - 1], [size - 1, 1, 0], list(range(size))):
        part = dist.new_group(ranks)
        if rank not in ranks:
            continue
        tensor = torch.from_numpy(own(rank, LARGE, np.float32))
        dist.all_reduce(tensor, group=part)
        assert np.array_equal(tensor.numpy(), total(ranks, LARGE, np.float32))
        tensor = torch.from_numpy(own(rank, LARGE, np.float32))
        dist.broadcast(tensor, src=size - 1, group=part)
        assert np.array_equal(tensor.numpy(), own(size - 1, LARGE, np.float32))
    dist.barrier()
    dist.destroy_process_group()


def run_with_others_maps() -> None:
    try:
        holdfast.init()
    except holdfast.HoldfastError as error:
        print("REFUSED", error, flush=True)
        raise SystemExit(0) from None
    raise SystemExit("it began with a map of its own")


def lose_one() -> None:
    group = holdfast.init()
    everybody = list(range(group.size))
    for step in range(60):
        if group.rank == 1 and step == 20:
            os.kill(os.getpid(), signal.SIGKILL)
        array = own(group.rank, LARGE, np.float32)
        outcome = group.all_reduce(array, async_op=True).wait()
        whole = total(everybody, LARGE, np.float32)
        left = total([r for r in everybody if r != 1], LARGE, np.float32)
        # Each part has either all ranks in it or those that are left, and is the same everywhere.
        assert np.all((array == whole) | (array == left)), outcome
        if step > 25:
            assert np.array_equal(array, left), step
    group.close()
