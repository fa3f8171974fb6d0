"""Slots: a keeper's memory, each with the part of a snapshot that is in it.

Which slot is for which snapshot, and which snapshot counts, is decided elsewhere
(native/ft/snapshots); here are the bytes, and what is known of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from holdfast.ft.state.keeper.capture import TILE, Hashes, Tiles
from holdfast.ft.state.keeper.memory import Region, refuse_beyond

# The newest committed snapshot, and the next; and one that is being flushed.
SLOTS, SLOTS_OF_FLUSHES = 2, 3

Id = tuple[int, int]
"""Epoch of the group of keepers, and step."""


@dataclass(frozen=True, slots=True)
class Seat:
    """Whose a part of a snapshot is, by the ranks of then.

    Parameters
    ----------
    rank : int
        The trainer's.
    group : tuple of int
        Ranks of its code group, by its members.
    parity : int
        Of the code; 0: there is none.
    world : int
        How many trainers there were.
    """

    rank: int = 0
    group: tuple[int, ...] = (0,)
    parity: int = 0
    world: int = 1


@dataclass(frozen=True, slots=True)
class Part:
    """One rank's part of a snapshot, described.

    Parameters
    ----------
    step : int
        Of training.
    nbytes : int
        Of the body.
    layout : str
        Digest of where what lies in it: bodies of one layout have the same bytes at the same place.
    head : bytes
        What describes the body.
    """

    step: int
    nbytes: int
    layout: str
    head: bytes


def digest_of(hashes: Hashes) -> int:
    """Return the hash of tiles' hashes."""
    return xxhash.xxh3_64_intdigest(hashes.tobytes())


class Slot:
    """Room for one body, and for a row of parity or more.

    Parameters
    ----------
    name : str
        For errors and ``/proc``.
    body, parity : int
        Bytes.
    """

    def __init__(self, name: str, body: int, parity: int) -> None:
        self.region = Region(f"body of {name}", max(body, TILE))
        self.parity = Region(f"parity of {name}", max(parity, TILE))
        self.clear()
        self._layout = ""
        self._written = 0

    def clear(self) -> None:
        """Have nothing any more."""
        self.part: Part | None = None
        self.id: Id = (0, 0)
        self.seat = Seat()
        self.hashes: Hashes = np.zeros(0, np.uint64)
        self.row_hashes: Hashes = np.zeros(0, np.uint64)
        self.parts: list[int] = []
        self.guarded: dict[int, tuple[Part, Hashes]] = {}
        self.largest = 0
        self.is_whole = self.is_committed = False
        self.left = ""
        """What is there of a snapshot that does not count: ``whole`` this rank's part, ``early``
        what the trainer had copied itself, at the places of `early`."""
        self.early: list[int] = []

    def drop(self) -> None:
        """Have something that does not count, until the memory is needed."""
        if not self.is_whole and not self.left:
            self.clear()
            return
        self.left = "whole" if self.is_whole else self.left
        self.is_whole = self.is_committed = False
        self.parts = []

    @property
    def body(self) -> memoryview:
        """The bytes of the part."""
        return self.region.view[: self.part.nbytes if self.part else 0]

    def begin(self, part: Part) -> None:
        """Make room for a part; what was there is gone."""
        self.clear()
        self.part = part
        everything = np.frombuffer(self.region.view, np.uint8)
        # Where no tensor lies, all members' bytes are zero: parity is of whole tiles.
        first = 0 if part.layout != self._layout else part.nbytes
        everything[first : max(self._written, first)] = 0
        self._layout, self._written = part.layout, part.nbytes

    def pad(self, nbytes: int) -> None:
        """Have zeros behind the body: they are part of the code, and no hash tells of them.

        Parameters
        ----------
        nbytes : int
            Of the body as it is coded.
        """
        np.frombuffer(self.region.view, np.uint8)[len(self.body) : nbytes] = 0

    def damaged(self) -> list[int]:
        """Return the tiles that have not the bytes that were captured."""
        return Tiles(self.body).damaged(self.hashes)

    def damaged_rows(self) -> list[tuple[int, int]]:
        """Return (row, tile) of parity that has not the bytes that were made."""
        count = len(self.row_hashes)
        wrong = Tiles(self.parity.view[: count * TILE]).damaged(self.row_hashes)
        tiles = max(1, count // max(1, self._rows))
        return [(tile // tiles, tile % tiles) for tile in wrong]

    _rows = 0

    def has_parity(self, rows: int, hashes: Hashes) -> None:
        """Take note of parity that is made."""
        self._rows, self.row_hashes = rows, hashes

    @property
    def parity_rows(self) -> int:
        """Rows of parity; 0: none are made."""
        return self._rows if len(self.row_hashes) else 0

    @property
    def parity_view(self) -> memoryview:
        """The bytes of the parity that is made."""
        return self.parity.view[: len(self.row_hashes) * TILE]

    def told(self) -> dict[str, Any]:
        """Return what a message says of it."""
        return {
            "step": self.part.step if self.part else -1,
            "ranks": len(self.parts),
            "nbytes": len(self.body),
            "whole": self.is_whole,
            "left": self.left,
            "parity": len(self.row_hashes) > 0,
            "committed": self.is_committed,
        }


# Of a slot, beside bytes and parity, when it gets more room.
_KEPT = (
    *("id", "seat", "hashes", "parts", "guarded", "largest"),
    *("is_whole", "is_committed", "left", "early"),
)


class Slots:
    """All of a keeper's, of one size."""

    def __init__(self) -> None:
        self.all: list[Slot] = []
        self.count = SLOTS
        self.body = self.parity = 0

    def reserve(self, body: int, parity: int) -> None:
        """Have room for bodies and parity of so many bytes; what is committed is kept.

        Raises
        ------
        ConfigError
            There is not so much memory.
        """
        if body <= self.body and parity <= self.parity:
            return
        body, parity = max(body, self.body), max(parity, self.parity)
        refuse_beyond(
            self.count * (body + parity),
            f"{self.count} snapshots of {body} bytes and {parity} of parity",
        )
        found = [Slot(f"snapshot {number}", body, parity) for number in range(self.count)]
        for old, new in zip(self.all, found, strict=False):
            if (old.is_whole or old.left) and old.part is not None:
                new.begin(old.part)
                new.body[:] = old.body
                for name in _KEPT:
                    setattr(new, name, getattr(old, name))
                made = len(old.row_hashes) * TILE
                new.parity.view[:made] = old.parity.view[:made]
                new.has_parity(old._rows, old.row_hashes)
            old.region.close()
            old.parity.close()
        self.all, self.body, self.parity = found, body, parity

    def of(self, step: int) -> Slot | None:
        """The one that has a step, whole; of several the newest."""
        there = [one for one in self.all if one.is_whole and one.part and one.part.step == step]
        return max(there, key=lambda one: one.id, default=None)

    def with_id(self, id: Id) -> Slot | None:
        """The one that has a snapshot, whole."""
        return next((one for one in self.all if one.is_whole and one.id == id), None)

    @property
    def newest(self) -> Slot | None:
        """The newest one that is committed."""
        there = [one for one in self.all if one.is_committed]
        return max(there, key=lambda one: one.id, default=None)


def rows_with_damage(
    old: Slot | None, changed: npt.NDArray[np.bool_], rows: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Return the rows, of those given, in which what is used of an old slot is damaged."""
    found = np.zeros_like(rows)
    if old is None:
        return found
    tiles = len(rows)
    parity = old.parity_view
    for number, expected in enumerate(old.row_hashes.tolist()):
        if rows[number % tiles]:
            part = parity[number * TILE : (number + 1) * TILE]
            found[number % tiles] |= xxhash.xxh3_64_intdigest(part) != expected
    body = old.body
    for number, expected in enumerate(old.hashes.tolist()):
        if rows[number % tiles] and changed[number // tiles, number % tiles]:
            part = body[number * TILE : (number + 1) * TILE]
            found[number % tiles] |= xxhash.xxh3_64_intdigest(part) != expected
    return found
