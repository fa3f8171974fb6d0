"""Speeds of members, measured where each computes, and told to all beside the last exchange.

A member's time counts from the end of one `step` to the end of the inner optimiser's in the next:
its data, forward and backward pass, and not what it waits for in exchanges. What is told is the
same on all members, and by it shares are dealt, never by what a clock says of others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch

from holdfast.compress.exchange import Exchange, Pending
from holdfast.errors import HoldfastError

Clock = Callable[[], float]


class Pace:
    """The speeds of a trainer's members, as one of them knows them.

    Parameters
    ----------
    is_on : bool
        Whether shares go by them.
    device : torch.device
        What computes.
    clock : callable
        Returns seconds.
    is_told : bool
        Whether they are measured where shares do not go by them.
    """

    def __init__(
        self,
        is_on: bool,
        device: torch.device,
        clock: Clock = time.perf_counter,
        is_told: bool = False,
    ) -> None:
        self.is_on = is_on
        self._is_told = is_on or is_told
        self.clock = clock
        self._device = device
        self._mark = clock()
        self._spent = 0.0
        self._done = 0.0
        self._told: tuple[Pending, torch.Tensor, torch.Tensor] | None = None
        # Seconds for one unit, by rank, as all were told; what has been heard counts when the table
        # says so, though somebody may have waited for it before.
        self._heard: dict[int, float] | None = None
        self._costs: dict[int, float] = {}

    def goes_on(self) -> None:
        """Count from here: what was before was not computation."""
        self._mark = self.clock()

    def waited(self, seconds: float) -> None:
        """Leave out some seconds that were not computation."""
        self._mark += seconds

    def computed(self, units: float, is_waiting: bool) -> None:
        """Count what has been computed since.

        Parameters
        ----------
        units : float
            Local steps, or samples, of which it was.
        is_waiting : bool
            Whether the device is waited for now, as what follows does anyway.
        """
        if not self._is_told:
            return
        if is_waiting and self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        self._spent += self.clock() - self._mark
        self._done += units

    def begin(self, exchange: Exchange, is_late: bool = False) -> None:
        """Tell everybody what this member's units of the round have cost; collective.

        Parameters
        ----------
        exchange : Exchange
            Over the members.
        is_late : bool
            Whether the member computes still: a unit has cost no less than it would if it were
            done now.
        """
        if not self._is_told:
            return
        if is_late:
            cost = (self._spent + self.clock() - self._mark) / (self._done + 1)
        else:
            cost = self._spent / self._done if self._done else 0.0
            self._spent = self._done = 0.0
        # Bits as integers, which no codec touches.
        own = torch.tensor([cost], dtype=torch.float64).view(torch.int64).to(self._device)
        rows = torch.zeros(exchange.size, 1, dtype=torch.int64, device=self._device)
        self._told = (exchange.gather(rows, own), rows, own)

    def end(self) -> None:
        """Wait for what has begun; one that fails leaves speeds as they were, on all alike."""
        if self._told is None:
            return
        (work, rows, _), self._told = self._told, None
        try:
            work.wait()
        except HoldfastError:
            return
        costs = rows.cpu().view(torch.float64).view(-1).tolist()
        self._heard = {rank: cost for rank, cost in enumerate(costs) if cost > 0}

    def adopt(self) -> None:
        """Go by what has been heard, from the same place of the table on as all members do."""
        if self._heard is not None:
            self._costs, self._heard = self._heard, None

    def forget(self, ranks: Sequence[int]) -> None:
        """Know nothing of who has come in: what is known is of whom had the rank before.

        Parameters
        ----------
        ranks : sequence of int
            Theirs.
        """
        for rank in ranks:
            for known in (self._costs, self._heard or {}):
                known.pop(rank, None)

    def fastest(self, members: Sequence[int]) -> float | None:
        """Return the seconds of a unit of the fastest member; None while nobody has told any.

        Parameters
        ----------
        members : sequence of int
            Their ranks.
        """
        return min((self._costs[one] for one in members if one in self._costs), default=None)

    def part(self, rank: int, members: Sequence[int]) -> float:
        """Return how much of what the fastest member does another can do meanwhile: 0 to 1.

        Parameters
        ----------
        rank : int
            The other; 1 while it is not known.
        members : sequence of int
            Their ranks; those that are not known count for nothing.
        """
        if rank not in self._costs:
            return 1.0
        return min(self._costs[one] for one in members if one in self._costs) / self._costs[rank]

    def speeds(self, members: Sequence[int]) -> list[float]:
        """Return units a second of members; all the same while one of them is not known.

        Parameters
        ----------
        members : sequence of int
            Their ranks.
        """
        if not self.is_on or any(rank not in self._costs for rank in members):
            return [1.0] * len(members)
        return [1.0 / self._costs[rank] for rank in members]
