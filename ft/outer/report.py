"""What a trainer says of an outer step."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple


class OuterStep(NamedTuple):
    """What the outer step of a fragment was made of; the same on all members."""

    step: int
    """Local steps until it was mixed in, since the beginning of the run."""
    fragment: int
    """Which one."""
    weights: dict[int, float]
    """Samples by rank, of those whose progress is in it; empty at a newcomer whom it awaited."""
    not_finite: tuple[int, ...]
    """Ranks whose progress was not finite, and counted for nothing."""
    length: float
    """Euclidean norm of the mean progress; of the mean parameters where those are averaged."""
    codec: str | None = None
    """What progress travels as now: what the exchange that began last does."""
    why: str = ""
    """Where the trainer has chosen it from a list, why."""
    late: tuple[int, ...] = ()
    """Ranks that were stood in for: of their weight is only what came from rounds before."""


def warn_of(ranks: Sequence[int], method: str, step: int) -> None:
    """Warn of members whose progress is not finite.

    Parameters
    ----------
    ranks : sequence of int
        They.
    method : str
        The trainer's.
    step : int
        The local step after which it was found.
    """
    who = ", ".join(map(str, ranks))
    warnings.warn(
        f"{method}: the progress of rank {who} is not finite and counts for nothing in the outer "
        f"step after local step {step}; it goes on from the shared parameters",
        RuntimeWarning,
        stacklevel=4,
    )
