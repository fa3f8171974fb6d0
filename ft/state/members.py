"""The trainers whose states are one snapshot: who they are, and how they tell each other something.

They are torch's default process group, of any backend, or one process.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch.distributed as dist

_PREFIX = "holdfast/keepers"


class Members(Protocol):
    """One of them."""

    rank: int
    size: int
    store: Any
    """Where their keepers meet."""

    def tell(self, mine: Any) -> list[Any]:
        """Return what everybody tells, by rank; collective."""


class Alone:
    """One process."""

    def __init__(self) -> None:
        self.rank, self.size, self.store = 0, 1, dist.HashStore()

    def tell(self, mine: Any) -> list[Any]:
        """Return what this one tells."""
        return [mine]


class OfTorch:
    """The ranks of torch's default process group."""

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        # A thread of its own uses it: stores of torch's keep others waiting while one waits.
        own = dist.distributed_c10d._get_default_store().clone()  # type: ignore[attr-defined]
        self.store = dist.PrefixStore(_PREFIX, own)

    def tell(self, mine: Any) -> list[Any]:
        """Return what everybody tells, by rank; collective."""
        found: list[Any] = [None] * self.size
        dist.all_gather_object(found, mine)
        return found


def members() -> Members:
    """Return torch's default group where there is one, else this process alone."""
    is_one_of_many = dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
    return OfTorch() if is_one_of_many else Alone()
