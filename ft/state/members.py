"""The trainers whose states are one snapshot: who they are, and how they tell each other something.

They are the ranks of torch's default process group that are there, of any backend, or one process.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any, Protocol

import torch
import torch.distributed as dist

from holdfast.errors import PeerLost

_PREFIX = "holdfast/keepers"


class Members(Protocol):
    """One of them."""

    rank: int
    """Among those that are there, from 0 on without holes."""
    size: int
    world: int
    """How many there would be."""
    seat: int
    """In the job, by which its keeper is found; the same in all lives."""

    def store(self) -> Any:
        """Return where their keepers meet, for one thread."""

    def tell(self, mine: Any) -> list[Any]:
        """Return what everybody tells, by rank; collective."""


class Alone:
    """One process."""

    def __init__(self) -> None:
        self.rank = self.seat = 0
        self.size = self.world = 1
        self._store = dist.HashStore()

    def store(self) -> Any:
        """Return where their keepers meet."""
        return self._store

    def tell(self, mine: Any) -> list[Any]:
        """Return what this one tells."""
        return [mine]


class OfTorch:
    """The ranks of torch's default process group."""

    def __init__(self) -> None:
        self.rank = self.seat = dist.get_rank()
        self.size = self.world = dist.get_world_size()

    def store(self) -> Any:
        """Return where their keepers meet."""
        # A thread of its own uses it: stores of torch's keep others waiting while one waits.
        own = dist.distributed_c10d._get_default_store().clone()  # type: ignore[attr-defined]
        return dist.PrefixStore(_PREFIX, own)

    def tell(self, mine: Any) -> list[Any]:
        """Return what everybody tells, by rank; collective."""
        found: list[Any] = [None] * self.size
        dist.all_gather_object(found, mine)
        return found


class OfHoldfast(OfTorch):
    """Those ranks of a group of Holdfast's that are there; collective.

    Raises
    ------
    PeerLost
        By `tell`, when one of them is lost.
    """

    def __init__(self) -> None:
        super().__init__()
        # Views may differ while somebody dies; what a result is made of is the same on all.
        _, self._seats = _gathered(torch.zeros(1, dtype=torch.uint8))
        self.size, self.rank = len(self._seats), self._seats.index(self.seat)

    def tell(self, mine: Any) -> list[Any]:
        """Return what everybody tells, by rank; collective."""
        data = torch.frombuffer(bytearray(pickle.dumps(mine)), dtype=torch.uint8)
        lengths = self._all(torch.tensor([data.numel()]))
        row = torch.zeros(max(int(length) for length in lengths), dtype=torch.uint8)
        row[: data.numel()] = data
        rows = self._all(row)
        pairs = zip(rows, lengths, strict=True)
        return [pickle.loads(row[: int(length)].numpy().tobytes()) for row, length in pairs]

    def _all(self, mine: torch.Tensor) -> list[torch.Tensor]:
        rows, there = _gathered(mine)
        if lost := [seat for seat in self._seats if seat not in there]:
            raise PeerLost(f"ranks {lost} were lost while trainers told each other of their state")
        return [rows[seat] for seat in self._seats]


def _gathered(mine: torch.Tensor) -> tuple[Sequence[torch.Tensor], list[int]]:
    """Return everybody's tensors, and whose they are."""
    import holdfast

    rows = [torch.zeros_like(mine) for _ in range(dist.get_world_size())]
    with holdfast.on_hole("zero"):
        work = dist.all_gather(rows, mine, async_op=True)
    assert work is not None
    work.wait()
    return rows, sorted(holdfast.outcome(work).contributors)


def members() -> Members:
    """Return torch's default group where there is one, else this process alone."""
    is_one_of_many = dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
    if not is_one_of_many:
        return Alone()
    # Groups of GPUs alone gather objects in their memory.
    world = dist.group.WORLD
    takes_cpu = world is not None and "cpu" in [one.type for one in world._device_types]
    return OfHoldfast() if dist.get_backend() == "holdfast" and takes_cpu else OfTorch()
