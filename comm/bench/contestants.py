"""Who runs: Holdfast through torch or its own groups, gloo, MPI. Each makes calls ready to time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from holdfast.comm.bench.plan import Case
from holdfast.comm.bench.routing import first_source, splits

Call = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A call on buffers of its own, and the values that must be in `result` after one call."""

    call: Call
    result: Any
    expected: float | None


class Contestant(Protocol):
    """One implementation."""

    name: str

    def prepare(self, case: Case) -> Prepared | None:
        """Return the call, or None where this implementation has no such case."""


@dataclass(frozen=True, slots=True)
class Buffers:
    """What all contestants work on: filled with rank + 1."""

    whole: Any
    block: Any
    blocks: Any
    received: Any
    routed: Any  # of all_to_allv: what comes from the others


def _expected(collective: str, rank: int, ranks: int) -> float | None:
    """Return what the first element of the result becomes, when every rank filled in rank + 1."""
    total = ranks * (ranks + 1) / 2
    if collective in ("all_reduce", "reduce_scatter"):
        return total
    if collective in ("broadcast", "scatter", "all_gather", "all_to_all"):
        return 1.0  # the first block is rank 0's
    if collective == "reduce":
        return total if rank == 0 else None
    if collective == "gather":
        return 1.0 if rank == 0 else None
    return None


def _routed(case: Case, rank: int, ranks: int, itemsize: int) -> tuple[list[int], list[int]]:
    return splits(rank, ranks, max(1, case.size // itemsize))


def _expected_of(case: Case, rank: int, ranks: int, taken: list[int]) -> float | None:
    if case.collective != "all_to_allv":
        return _expected(case.collective, rank, ranks)
    first = first_source(taken)
    return None if first is None else first + 1.0


class TorchContestant:
    """A torch process group: Holdfast or gloo."""

    def __init__(
        self, name: str, group: Any, rank: int, ranks: int, *, pooled: bool = False
    ) -> None:
        self.name = name
        self._group, self._rank, self._ranks = group, rank, ranks
        self._empty = _pool_empty if pooled else torch_empty

    def prepare(self, case: Case) -> Prepared | None:
        """Return the call, or None where there is no such case."""
        import torch

        dtype = getattr(torch, case.dtype)
        count = max(1, case.size // dtype.itemsize)
        each = max(1, count // self._ranks)

        def filled(n: int) -> Any:
            return self._empty(n, dtype).copy_(torch.full((n,), float(self._rank + 1)))

        give, take = _routed(case, self._rank, self._ranks, dtype.itemsize)
        buffers = Buffers(
            filled(count),
            filled(each),
            filled(each * self._ranks),
            filled(each * self._ranks),
            filled(sum(take)),
        )
        call, result = self._call(case.collective, buffers, give, take)
        return Prepared(call, result, _expected_of(case, self._rank, self._ranks, take))

    def _call(
        self, collective: str, b: Buffers, give: list[int], take: list[int]
    ) -> tuple[Call, Any]:
        import torch.distributed as dist

        group, root = self._group, self._rank == 0
        parts = list(b.blocks.chunk(self._ranks))
        calls: dict[str, tuple[Call, Any]] = {
            "all_reduce": (lambda: dist.all_reduce(b.whole, group=group), b.whole),
            "broadcast": (lambda: dist.broadcast(b.whole, 0, group=group), b.whole),
            "reduce": (lambda: dist.reduce(b.whole, 0, group=group), b.whole),
            "all_gather": (
                lambda: dist.all_gather_into_tensor(b.received, b.block, group=group),
                b.received,
            ),
            "reduce_scatter": (
                lambda: dist.reduce_scatter_tensor(b.block, b.blocks, group=group),
                b.block,
            ),
            "all_to_all": (
                lambda: dist.all_to_all_single(b.received, b.blocks, group=group),
                b.received,
            ),
            "all_to_allv": (
                lambda: dist.all_to_all_single(b.routed, b.whole, take, give, group=group),
                b.routed,
            ),
            "gather": (
                lambda: dist.gather(b.block, parts if root else None, dst=0, group=group),
                b.blocks,
            ),
            "scatter": (
                lambda: dist.scatter(b.block, parts if root else None, src=0, group=group),
                b.block,
            ),
            "barrier": (lambda: dist.barrier(group=group), None),
            "send_recv": (lambda: self._ping_pong(b.whole), None),
        }
        return calls[collective]

    def _ping_pong(self, t: Any) -> None:
        import torch.distributed as dist

        if self._rank == 0:
            dist.send(t, 1, group=self._group)
            dist.recv(t, 1, group=self._group)
        elif self._rank == 1:
            dist.recv(t, 0, group=self._group)
            dist.send(t, 0, group=self._group)


def torch_empty(count: int, dtype: Any) -> Any:
    """Return an ordinary tensor."""
    import torch

    return torch.empty(count, dtype=dtype)


def _pool_empty(count: int, dtype: Any) -> Any:
    """Return memory of the process's pool: an array, or a tensor for a dtype of torch's."""
    import holdfast

    return holdfast.empty(count, dtype)


def _arrays(
    case: Case, rank: int, ranks: int, empty: Callable[[int, Any], Any] = np.empty
) -> Buffers | None:
    try:
        dtype = np.dtype(case.dtype)
    except TypeError:
        return None  # bf16 and fp8 are not NumPy's
    count = max(1, case.size // dtype.itemsize)
    each = max(1, count // ranks)
    sizes = (count, each, each * ranks, each * ranks, sum(splits(rank, ranks, count)[1]))
    arrays = [empty(n, dtype) for n in sizes]
    for array in arrays:
        array[...] = rank + 1
    return Buffers(*arrays)


class GroupContestant:
    """A `holdfast.Group`, on NumPy arrays."""

    def __init__(self, name: str, group: Any, *, pooled: bool = False) -> None:
        self.name = name
        self._group = group
        self._empty = _pool_empty if pooled else np.empty

    def prepare(self, case: Case) -> Prepared | None:
        """Return the call, or None where there is no such case."""
        group = self._group
        b = _arrays(case, group.rank, group.size, self._empty)
        if b is None:
            return None
        give, take = _routed(case, group.rank, group.size, b.whole.itemsize)
        root = group.rank == 0
        calls: dict[str, tuple[Call, Any]] = {
            "all_reduce": (lambda: group.all_reduce(b.whole), b.whole),
            "broadcast": (lambda: group.broadcast(b.whole), b.whole),
            "reduce": (lambda: group.reduce(b.whole), b.whole),
            "all_gather": (lambda: group.all_gather(b.received, b.block), b.received),
            "reduce_scatter": (lambda: group.reduce_scatter(b.block, b.blocks), b.block),
            "all_to_all": (lambda: group.all_to_all(b.received, b.blocks), b.received),
            "all_to_allv": (lambda: group.all_to_all(b.routed, b.whole, take, give), b.routed),
            "gather": (lambda: group.gather(b.blocks if root else None, b.block), b.blocks),
            "scatter": (lambda: group.scatter(b.block, b.blocks if root else None), b.block),
            "barrier": (group.barrier, None),
            "send_recv": (lambda: self._ping_pong(b.whole), None),
        }
        call, result = calls[case.collective]
        return Prepared(call, result, _expected_of(case, group.rank, group.size, take))

    def _ping_pong(self, a: Any) -> None:
        if self._group.rank == 0:
            self._group.send(a, 1)
            self._group.recv(a, 1)
        elif self._group.rank == 1:
            self._group.recv(a, 0)
            self._group.send(a, 0)


class MpiContestant:
    """MPI's world, through mpi4py's buffer interface."""

    def __init__(self, name: str, world: Any) -> None:
        self.name = name
        self._world = world

    def prepare(self, case: Case) -> Prepared | None:
        """Return the call, or None where there is no such case."""
        from mpi4py import MPI

        world, b = self._world, _arrays(case, self._world.rank, self._world.size)
        if b is None or case.dtype == "float16":
            return None  # no predefined datatype
        give, take = _routed(case, world.rank, world.size, b.whole.itemsize)
        root = world.rank == 0
        here = MPI.IN_PLACE
        calls: dict[str, tuple[Call, Any]] = {
            "all_reduce": (lambda: world.Allreduce(here, b.whole), b.whole),
            "broadcast": (lambda: world.Bcast(b.whole), b.whole),
            "reduce": (
                (lambda: world.Reduce(here, b.whole))
                if root
                else (lambda: world.Reduce(b.whole, None)),
                b.whole,
            ),
            "all_gather": (lambda: world.Allgather(b.block, b.received), b.received),
            "reduce_scatter": (lambda: world.Reduce_scatter_block(b.blocks, b.block), b.block),
            "all_to_all": (lambda: world.Alltoall(b.blocks, b.received), b.received),
            "all_to_allv": (
                lambda: world.Alltoallv([b.whole, give], [b.routed, take]),
                b.routed,
            ),
            "gather": (lambda: world.Gather(b.block, b.blocks if root else None), b.blocks),
            "scatter": (lambda: world.Scatter(b.blocks if root else None, b.block), b.block),
            "barrier": (world.Barrier, None),
            "send_recv": (lambda: self._ping_pong(b.whole), None),
        }
        call, result = calls[case.collective]
        return Prepared(call, result, _expected_of(case, world.rank, world.size, take))

    def _ping_pong(self, a: Any) -> None:
        if self._world.rank == 0:
            self._world.Send(a, 1)
            self._world.Recv(a, 1)
        elif self._world.rank == 1:
            self._world.Recv(a, 0)
            self._world.Send(a, 0)
