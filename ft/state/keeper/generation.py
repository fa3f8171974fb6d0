"""Generations: the bodies that a keeper has, each with the snapshot that is in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xxhash

from holdfast.ft.state.keeper.capture import TILE, Hashes, Tiles
from holdfast.ft.state.keeper.memory import Region, refuse_beyond

# The newest committed one, and the next.
GENERATIONS = 2


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is said of a rank's part of a snapshot.

    Parameters
    ----------
    step, epoch : int
        Of training, and of the trainers' view.
    nbytes : int
        Of the body.
    layout : str
        Digest of where what lies in it: bodies of one layout have the same bytes at the same place.
    head : bytes
        What describes the body.
    """

    step: int
    epoch: int
    nbytes: int
    layout: str
    head: bytes


class Generation:
    """Room for one body.

    Parameters
    ----------
    name : str
        For errors and ``/proc``.
    capacity : int
        Bytes.
    """

    def __init__(self, name: str, capacity: int) -> None:
        self.region = Region(name, max(capacity, TILE))
        self.snapshot: Snapshot | None = None
        self.hashes: Hashes = np.zeros(0, np.uint64)
        self.is_whole = False
        self.is_committed = False
        self._layout = ""

    @property
    def body(self) -> memoryview:
        """The bytes of the snapshot."""
        return self.region.view[: self.snapshot.nbytes if self.snapshot else 0]

    @property
    def step(self) -> int:
        """Of the snapshot; -1: none."""
        return self.snapshot.step if self.snapshot else -1

    @property
    def digest(self) -> str:
        """Of head and tiles: who has the same has the same bytes."""
        found = xxhash.xxh3_128(self.snapshot.head if self.snapshot else b"")
        found.update(self.hashes.tobytes())
        return found.hexdigest()

    def begin(self, snapshot: Snapshot) -> None:
        """Make room for a snapshot; what was there is gone."""
        self.snapshot, self.is_whole, self.is_committed = snapshot, False, False
        if snapshot.layout != self._layout:
            # Between tensors there are bytes that nobody writes: all generations have the same.
            np.frombuffer(self.region.view, np.uint8).fill(0)
            self._layout = snapshot.layout

    def drop(self) -> None:
        """Have nothing any more."""
        self.snapshot, self.is_whole, self.is_committed = None, False, False

    def damaged(self) -> list[int]:
        """Return the tiles that have not the bytes that were captured."""
        return Tiles(self.body).damaged(self.hashes)

    def told(self) -> dict[str, Any]:
        """Return what a message says of it."""
        return {
            "step": self.step,
            "epoch": self.snapshot.epoch if self.snapshot else 0,
            "nbytes": len(self.body),
            "layout": self.snapshot.layout if self.snapshot else "",
            "whole": self.is_whole,
            "committed": self.is_committed,
            "digest": self.digest if self.is_whole else "",
        }


class Generations:
    """All of a keeper's, of one size."""

    def __init__(self) -> None:
        self.all: list[Generation] = []
        self.capacity = 0

    def reserve(self, capacity: int) -> None:
        """Have room for bodies of so many bytes; the newest committed one is kept.

        Raises
        ------
        ConfigError
            There is not so much memory.
        """
        if capacity <= self.capacity:
            return
        refuse_beyond(GENERATIONS * capacity, f"{GENERATIONS} snapshots of {capacity} bytes each")
        newest, found = self.newest, []
        for number in range(GENERATIONS):
            room = Generation(f"snapshot {number}", capacity)
            if newest is not None and number == 0:
                assert newest.snapshot is not None
                room.begin(newest.snapshot)
                room.body[:] = newest.body
                room.hashes = newest.hashes
                room.is_whole = room.is_committed = True
            found.append(room)
        for old in self.all:
            old.drop()
            old.region.close()
        self.all, self.capacity = found, capacity

    @property
    def newest(self) -> Generation | None:
        """The newest one that is committed."""
        committed = [one for one in self.all if one.is_committed]
        return max(committed, key=lambda one: one.step, default=None)

    def of(self, step: int) -> Generation | None:
        """The one that has a step, whole."""
        return next((one for one in self.all if one.is_whole and one.step == step), None)

    def free(self) -> Generation:
        """The one that may be overwritten: never the newest committed one."""
        newest = self.newest
        return min((one for one in self.all if one is not newest), key=lambda one: one.step)
