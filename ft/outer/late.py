"""What becomes of a member's part while its computation is late, and when it comes back.

Its stand-in does what the table says with what is shared, and leaves model and inner optimiser to
the computation that uses them: what would have been done with them is noted. When the member is
back, its progress since the shared parameters that it had is carried into its next exchange, by
its samples and its age, and it goes on from the shared parameters as they are.
Why: docs/decisions/0183-a-late-member-has-a-stand-in.md
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from holdfast.compress.exchange import Exchange
from holdfast.errors import PeerLost
from holdfast.ft.outer.flat import Flat

_LOG = logging.getLogger("holdfast.ft")
# Columns of a meeting: 1 of who is there, microseconds by which a member is late that is stood in
# for, and 1 + the row at which a member waits by itself for all.
_COLUMNS = 3
_MICRO = 1e6


def discount(age: int) -> float:
    """Return how much a sample counts whose progress comes so many rounds late.

    Xie, Koyejo, Gupta, "Asynchronous federated optimization", 2019, arXiv:1903.03934, section 5.2:
    the polynomial (age + 1) ** -a, with a = 1, as Zhang et al., "Staleness-aware async-SGD for
    distributed deep learning", IJCAI 2016, arXiv:1511.05950, divide a step by its age.

    Parameters
    ----------
    age : int
        Exchanges that went without it; 0: none.
    """
    return 1.0 / (1 + age)


@dataclass(frozen=True, slots=True)
class Carried:
    """Progress that comes late.

    Parameters
    ----------
    progress : torch.Tensor
        From the shared parameters that it began at.
    weight : float
        Its samples, discounted by its age.
    samples : float
        That it is of.
    """

    progress: torch.Tensor
    weight: float
    samples: float

    def joined(
        self, sent: torch.Tensor, own: float, outer: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the mean of it and of what the member sends besides, as of two members.

        Parameters
        ----------
        sent : torch.Tensor
            Overwritten.
        own : float
            Its weight.
        outer : torch.Tensor, optional
            The shared parameters, where members send their own and not progress.
        """
        late = self.progress if outer is None else outer - self.progress
        whole = own + self.weight
        return sent.mul_(own / whole).add_(late, alpha=self.weight / whole)


@dataclass(slots=True)
class Missed:
    """What has been done with a fragment without the member.

    Parameters
    ----------
    base : torch.Tensor or None
        The shared parameters at the first exchange that began without it.
    begins : int
        How many did.
    is_due : bool
        Whether a mean that it had taken part in is mixed in, and is not in its model.
    has_failed : bool
        Whether an exchange has.
    """

    base: torch.Tensor | None = None
    begins: int = 0
    is_due: bool = False
    has_failed: bool = False


class Absence:
    """Of one member.

    Parameters
    ----------
    flats : sequence of Flat
        The fragments.
    own : dict of str to torch.Tensor
        What is the member's own; what is carried is put there.
    is_possible : bool
        Whether it has a stand-in.
    """

    def __init__(
        self, flats: Sequence[Flat], own: dict[str, torch.Tensor], is_possible: bool
    ) -> None:
        self._own = own
        self.is_on = False
        """Whether its stand-in is acting."""
        self.missed: dict[int, Missed] = {}
        if is_possible:
            # By fragment: weight and samples.
            own["carried"] = torch.zeros(len(flats), 2, dtype=torch.float64)
            for fragment, flat in enumerate(flats):
                own[f"carried/{fragment}"] = flat.zeros()

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        """Have what is done with the model noted, and not done."""
        self.is_on = True
        try:
            yield
        finally:
            self.is_on = False

    def begins(self, fragment: int, outer: torch.Tensor) -> None:
        """Take note of an exchange that begins without the member."""
        missed = self._of(fragment)
        missed.begins += 1
        if missed.base is None:
            missed.base = outer.clone()

    def mixes(self, fragment: int) -> bool:
        """Return whether a mean is not put into the model now; it is noted."""
        if self.is_on and (missed := self._of(fragment)).base is None:
            missed.is_due = True
        return self.is_on

    def fails(self, fragment: int) -> bool:
        """Return whether what was sent is not taken back now; it is noted."""
        if self.is_on:
            self._of(fragment).has_failed = True
        return self.is_on

    def _of(self, fragment: int) -> Missed:
        return self.missed.setdefault(fragment, Missed())

    def carry(self, fragment: int, late: Carried) -> None:
        """Have progress go into the next exchange, with what goes there already."""
        before = self.take(fragment)
        if before is not None:
            whole = before.joined(late.progress, late.weight)
            weight = before.weight + late.weight
            late = Carried(whole, weight, before.samples + late.samples)
        self._own[f"carried/{fragment}"].copy_(late.progress)
        told = torch.tensor([late.weight, late.samples], dtype=torch.float64)
        self._own["carried"][fragment] = told

    def take(self, fragment: int) -> Carried | None:
        """Return what goes into the next exchange of a fragment, and forget it."""
        if "carried" not in self._own:
            return None
        weight, samples = self._own["carried"][fragment].tolist()
        if not weight:
            return None
        self._own["carried"][fragment] = 0
        return Carried(self._own[f"carried/{fragment}"].clone(), weight, samples)

    def forget(self) -> None:
        """Have missed nothing, and carry nothing: a newcomer."""
        self.missed.clear()
        if "carried" in self._own:
            self._own["carried"].zero_()


class Met(NamedTuple):
    """What members have told before an exchange; the same on all."""

    late: dict[int, float]
    """By how many seconds, of those who are stood in for, by rank."""
    row: int | None
    """Where members wait by themselves for all; None: nobody does."""


class Meeting:
    """Who is late, told by all before an exchange begins; collective.

    Parameters
    ----------
    exchange : Exchange
        Over the members.
    device : torch.device
        Whose tensors it takes.
    late_s : float or None
        Of a stand-in: by how much its member is late.
    row : int, optional
        Of a member that waits for all: where it does.
    """

    def __init__(
        self,
        exchange: Exchange,
        device: torch.device,
        late_s: float | None = None,
        row: int | None = None,
    ) -> None:
        late = 0 if late_s is None else 1 + round(late_s * _MICRO)
        rows = torch.zeros(exchange.size, _COLUMNS, dtype=torch.int64)
        rows[exchange.rank] = torch.tensor([1, late, 0 if row is None else 1 + row])
        self._rows = rows.to(device)
        self._pending = exchange.sum(self._rows)
        self._met: Met | None = None

    def wait(self) -> Met:
        """Return what all have told; nothing where a loss was an error."""
        if self._met is None:
            self._met = self._heard()
        return self._met

    def _heard(self) -> Met:
        try:
            self._pending.wait()
        except PeerLost:
            return Met({}, None)
        told = list(enumerate(self._rows.tolist()))
        late = {rank: (row[1] - 1) / _MICRO for rank, row in told if row[0] and row[1]}
        waiting = [row[2] - 1 for _, row in told if row[0] and row[2]]
        return Met(late, max(waiting) if waiting else None)


def warn_of_late(
    late: Mapping[int, float], before: Mapping[int, float], method: str, step: int
) -> None:
    """Log who is stood in for, and was not before.

    Parameters
    ----------
    late, before : mapping of int to float
        Seconds by rank, now and at the exchange before.
    method : str
        The trainer's.
    step : int
        Local steps of the run.
    """
    for rank in sorted(late.keys() - before.keys()):
        _LOG.warning(
            "%s: the computation of rank %d is late by %.2f s before local step %d; its stand-in "
            "takes part with weight 0, and its progress comes later",
            method,
            rank,
            late[rank],
            step,
        )
