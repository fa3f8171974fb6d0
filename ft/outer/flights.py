"""Exchanges of a trainer that are under way, and means that have arrived before they are mixed in.

Those that have arrived early, at a step boundary or a checkpoint, are written to shared tensors:
a newcomer and a checkpoint have them there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from holdfast.errors import HoldfastError
from holdfast.ft.outer import checkpoint, mean, shared
from holdfast.ft.outer.late import Carried, Meeting


class Flight(NamedTuple):
    """An exchange that has begun."""

    under_way: mean.MeanUnderWay
    weight: float
    """This member's samples in it; they go back to it when it fails."""
    carried: Carried | None = None
    """Its late progress in it; so does that."""
    meeting: Meeting | None = None
    """What says who is late."""


class Failed(NamedTuple):
    """An exchange that could not begin; of a site, other ranks' may have."""

    error: HoldfastError

    def wait(self) -> mean.Mean:
        """Raise."""
        raise self.error


class Flights:
    """Of one member, by fragment.

    Parameters
    ----------
    tensors : mapping of str to torch.Tensor
        What is the same on all members.
    """

    def __init__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        self._shared = tensors
        self.under_way: dict[int, Flight] = {}
        self.arrived: dict[int, mean.Mean] = {}

    def in_order(self) -> list[int]:
        """Return the fragments under way or arrived, in the order in which they began."""
        begun = self._shared["steps"][1:].tolist()
        there = {*self.under_way, *self.arrived}
        return sorted(there, key=lambda fragment: (begun[fragment], fragment))

    def keep(self) -> None:
        """Write down what has arrived."""
        shared.keep(self._shared, self.arrived)

    def take_over(self) -> None:
        """Have what the others have kept, and nothing else."""
        self.under_way.clear()
        self.arrived = shared.kept(self._shared)

    def state(self) -> list[Any]:
        """Return what a checkpoint has of them beside the shared tensors."""
        return checkpoint.flights(self.arrived)

    def load(self, state: Sequence[Any]) -> None:
        """Take over what `state` returned, when the shared tensors are loaded."""
        self.under_way.clear()
        self.arrived = checkpoint.arrivals(state, self._shared)
