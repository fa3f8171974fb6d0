"""Ranks as threads of one process: an `Exchange` for tests of reducers' mathematics.

Sums are formed in the order of ranks, by one thread for all, so that every rank has the same bits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

from holdfast.compress import Alone
from holdfast.compress.weighted_mean import weighted_mean

_LIMIT_S = 60.0
T = TypeVar("T")


class Meeting:
    """Where the threads meet."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.barrier = threading.Barrier(size, timeout=_LIMIT_S)
        self.brought: dict[int, torch.Tensor] = {}


class _Done:
    def wait(self) -> None:
        pass


class ThreadExchange:
    """One rank's side; `sent` counts the bytes of what it gave to collectives."""

    def __init__(self, meeting: Meeting, rank: int) -> None:
        self._meeting = meeting
        self.rank = rank
        self.size = meeting.size
        self.members: tuple[int, ...] = tuple(range(meeting.size))
        self.sent = 0
        self.fail_at = -1
        self._ops = 0

    def regroup(self, members: Sequence[int]) -> None:
        self.members = tuple(members)

    def _all(self, mine: torch.Tensor) -> list[torch.Tensor]:
        self._ops += 1
        if self._ops == self.fail_at:
            raise ConnectionError("a rank was lost")
        self.sent += mine.numel() * mine.element_size()
        meeting = self._meeting
        meeting.brought[self.rank] = mine.clone()
        meeting.barrier.wait()
        everybody = [meeting.brought[rank] for rank in self.members]
        meeting.barrier.wait()
        return everybody

    def sum(self, tensor: torch.Tensor) -> _Done:
        total = torch.zeros_like(tensor)
        for one in self._all(tensor):
            total += one
        tensor.copy_(total)
        return _Done()

    def mean(
        self, tensor: torch.Tensor, codec: str | None = None, weight: float | None = None
    ) -> _Done:
        if weight is not None:
            weighted_mean(self, tensor, weight).wait()
            return _Done()
        self.sum(tensor)
        tensor.div_(len(self.members))
        return _Done()

    def swap(self, received: torch.Tensor, sent: torch.Tensor) -> _Done:
        received.zero_()
        for member, one in zip(self.members, self._all(sent), strict=True):
            received[member] = one[self.rank]
        return _Done()

    def gather(self, rows: torch.Tensor, own: torch.Tensor) -> _Done:
        rows.zero_()
        for member, one in zip(self.members, self._all(own), strict=True):
            rows[member] = one
        return _Done()


def run(size: int, program: Callable[[ThreadExchange], T]) -> list[T]:
    """Run `program` as every rank; what each returned."""
    meeting = Meeting(size)
    with ThreadPoolExecutor(size) as pool:
        futures = [pool.submit(program, ThreadExchange(meeting, rank)) for rank in range(size)]
        return [future.result(_LIMIT_S) for future in futures]


__all__ = ["Alone", "Meeting", "ThreadExchange", "run"]
