"""A row of docs/evidence/gpu-results.md: what is asked, how it is run, how its figure is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# Words of a shell's line: NAME=VALUE first, then a program; paths are the repository's.
Command = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """What the programs' lines come to: the figure, and whether it is what was asked for."""

    figure: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Row:
    """One row.

    Parameters
    ----------
    name : str
        For `--only`.
    what, asked : str
        The table's first columns.
    first : int
        Rows with small numbers are run first, as time may not suffice for all.
    commands : tuple
        To be run one after the other, on a machine with a GPU.
    rehearsal : tuple
        The same programs over the emulated device, with little to do; none, where they need what
        only a GPU has.
    read : callable
        Takes all lines of JSON that the commands print.
    limit_s : float
        For all commands together, in seconds.
    needs : tuple
        What of probe.py's parts must be there.
    is_timed : bool
        The figure is one of speed, which a rehearsal has none of.
    """

    name: str
    what: str
    asked: str
    first: int
    commands: tuple[Command, ...]
    rehearsal: tuple[Command, ...]
    read: Callable[[list[dict[str, Any]]], Reading]
    limit_s: float
    needs: tuple[str, ...] = ()
    is_timed: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """How a row went: `passed`, `failed` or `not run`, and the figure or the reason."""

    status: str
    text: str
    seconds: float = 0.0
