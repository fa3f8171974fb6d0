"""What a collective's result is made of, and the view that it was made in."""

from __future__ import annotations

from typing import NamedTuple


class Outcome(NamedTuple):
    """What a result is made of; the same on every rank that survives the op."""

    epoch: int
    """Number of the view in which the op ended."""
    contributors: tuple[int, ...]
    """Ranks whose data every part of the result has."""
    missing: tuple[int, ...]
    """Ranks whose data is not, or not everywhere, in the result; their blocks are zero."""
    retried: bool
    """Whether the op was repaired after a loss."""


class View(NamedTuple):
    """The agreed list of members."""

    epoch: int
    """Number of the view."""
    ranks: tuple[int, ...]
    """Ranks that have a member, rising."""
    joined: tuple[int, ...] = ()
    """Ranks that have come in at this boundary; the same on all, none in a group's first view."""
