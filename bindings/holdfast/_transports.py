"""The catalogue of transports, as the native core has it."""

from __future__ import annotations

from typing import NamedTuple

from holdfast import _core


class Transport(NamedTuple):
    """A row of the catalogue.

    Attributes
    ----------
    name : str
        In options and metrics.
    title : str
        For people.
    inside_hosts : bool
        Between processes of one host only.
    must_agree : bool
        All ranks must name it, or none; it may need hardware or a library.
    """

    name: str
    title: str
    inside_hosts: bool
    must_agree: bool


def rows() -> list[Transport]:
    """Return all rows, in the catalogue's order."""
    return [Transport(*row) for row in _core.transports()]


def names() -> tuple[str, ...]:
    """Return the names, in the catalogue's order."""
    return tuple(row.name for row in rows())
