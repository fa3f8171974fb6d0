"""Parity of the keepers' bodies, so that lost ones can be made again from the others.

A group of n = k + m members has n codewords, each with data of k members and parity on the m
others, in rotation (`Places`). Parity is a reduce_scatter with xor: each member multiplies its
tiles by the code's coefficients, and block h of the sum is what member h holds. A lost body is made
again with the coefficients of the inverse, of tiles that are sent to who has lost it alone
(all_to_all). Tiles are done in rows: the t-th tile of every slice. A row in which nobody's tile has
changed keeps its parity; where some have changed, what changed is sent to who has the parity
(all_to_all), and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import xxhash

from holdfast import _core
from holdfast.comm.group import Group
from holdfast.errors import PeerLost
from holdfast.ft.state.keeper.capture import TILE, Hashes
from holdfast.ft.state.places import Places, slice_tiles

_Bytes = npt.NDArray[np.uint8]
_Marks = npt.NDArray[np.bool_]
_Plan = dict[tuple[int, int], dict[int, tuple[int, int]]]
"""By member and slice: of which members which shards, and what each is multiplied by."""
# Tiles of a row that a member gets at a time while its body is made again.
_AT_ONCE = 16


class Shards(NamedTuple):
    """What one member has of the codewords.

    Parameters
    ----------
    slices, rows : numpy.ndarray of uint8
        Of its body and its parity: (which, tile, byte); read-only where they are not written.
    """

    slices: _Bytes
    rows: _Bytes

    def tile(self, shard: int, tile: int) -> _Bytes:
        """A tile of a shard: data from 0 on, then parity."""
        data = len(self.slices)
        found: _Bytes = self.slices[shard, tile] if shard < data else self.rows[shard - data, tile]
        return found


class Coding:
    """The code among the members of a group of keepers.

    Parameters
    ----------
    group : Group
        Of as many as the code has shards.
    data, parity : int
        k and m.
    """

    def __init__(self, group: Group, data: int, parity: int) -> None:
        self.places = Places(data, parity)
        assert group.size == self.places.members
        self._group = group
        self._code = _core.ErasureCode(data, parity)
        n = self.places.members
        self._sent = np.zeros((n, parity, TILE), np.uint8)
        self.sent_bytes = 0
        """What this member has given to the others in all, multiplied."""

    def slice_tiles(self, largest: int) -> int:
        """Return how many tiles a slice has, where the largest body has so many bytes."""
        return slice_tiles(largest, self.places.data)

    def room(self, largest: int) -> tuple[int, int]:
        """Return how many bytes a body is padded to, and how many its member's parity has."""
        tiles = self.slice_tiles(largest)
        return tiles * self.places.data * TILE, tiles * self.places.parity * TILE

    def shards(self, body: memoryview, parity: memoryview, largest: int) -> Shards:
        """Return a member's shards; both memories have `room`."""
        tiles, padded = self.slice_tiles(largest), self.room(largest)
        return Shards(
            np.frombuffer(body[: padded[0]], np.uint8).reshape(self.places.data, tiles, TILE),
            np.frombuffer(parity[: padded[1]], np.uint8).reshape(self.places.parity, tiles, TILE),
        )

    # ---- making parity ---------------------------------------------------------------------------

    def encode(
        self,
        new: Shards,
        old: Shards | None,
        changed: _Marks,
        refuse: Callable[[_Marks], _Marks],
    ) -> Generator[None, None, _Marks]:
        """Make the parity of new bodies; collective, yields between rows.

        Parameters
        ----------
        new : Shards
            The body, and room for the parity.
        old : Shards, optional
            Of the snapshot before, with its parity; None: on some member there is none.
        changed : numpy.ndarray of bool
            By slice and tile: whether it differs from the old one; all true without one.
        refuse : callable
            Gets the rows in which the old one is used, by tile; returns those in which this
            member's old bytes are damaged.

        Returns
        -------
        numpy.ndarray of bool
            By tile: whether its parity is that of the old one.

        Raises
        ------
        PeerLost
            A member is lost: the parity is none.
        """
        tiles = new.slices.shape[1]
        marks = np.zeros((self.places.members, *changed.shape), bool)
        if tiles:
            self._group.all_gather(
                marks.view(np.uint8).reshape(-1), changed.view(np.uint8).reshape(-1)
            )
            self._refuse_holes()
        uses_old: _Marks = np.zeros(tiles, bool)
        if old is not None:
            uses_old |= ~marks.all(axis=(0, 1))
        if uses_old.any():
            damaged = refuse(uses_old).astype(np.uint8)
            self._group.all_reduce(damaged, op="bor")
            self._refuse_holes()
            uses_old &= ~damaged.astype(bool)
        kept: _Marks = np.zeros(tiles, bool)
        kept |= uses_old & ~marks.any(axis=(0, 1))
        for tile in range(tiles):
            if old is None or not uses_old[tile]:
                self._contribute(new, tile)
                new.rows[:, tile] = self._scatter()
            elif kept[tile]:
                new.rows[:, tile] = old.rows[:, tile]
                continue
            else:
                self._correct(new, old, tile, marks[:, :, tile])
            yield
        return kept

    def _correct(self, new: Shards, old: Shards, tile: int, marks: _Marks) -> None:
        """Make parity of the old one and of what has changed; only that is sent."""
        places, me = self.places, self._group.rank
        parts: list[list[_Bytes]] = [[] for _ in range(places.members)]
        for column in np.flatnonzero(marks[me]).tolist():
            codeword = places.codeword_of_slice(me, column)
            outputs = [np.empty(TILE, np.uint8) for _ in range(places.parity)]
            coefficients = [
                self._code.coefficient(row, column) for row in range(places.parity) for _ in (0, 1)
            ]
            inputs = [new.slices[column, tile], old.slices[column, tile]]
            _core.multiply_tiles(outputs, inputs, coefficients)
            for row, output in enumerate(outputs):
                parts[(codeword + row) % places.members].append(output)
        rows = [
            (sender, (me - places.codeword_of_slice(sender, column)) % places.members)
            for sender in range(places.members)
            for column in np.flatnonzero(marks[sender]).tolist()
        ]
        # Of a column's codeword this member has that row of parity, or none.
        mine = [(sender, row) for sender, row in rows if row < places.parity]
        given = [len(part) * TILE for part in parts]
        taken = [sum(s == sender for s, _ in mine) * TILE for sender in range(places.members)]
        sent = [one for part in parts for one in part]
        found = np.empty((len(mine), TILE), np.uint8)
        flat = np.concatenate(sent) if sent else np.empty(0, np.uint8)
        self._group.all_to_all(found.reshape(-1), flat, taken, given)
        self._refuse_holes()
        self.sent_bytes += sum(given)
        new.rows[:, tile] = old.rows[:, tile]
        for (_, row), part in zip(mine, found, strict=True):
            new.rows[row, tile] ^= part

    def _contribute(self, new: Shards, tile: int) -> None:
        """Fill the blocks with this member's tiles, multiplied; others' rows stay zero."""
        places, me = self.places, self._group.rank
        for column in range(places.data):
            codeword = places.codeword_of_slice(me, column)
            outputs = [
                self._sent[(codeword + row) % places.members, row] for row in range(places.parity)
            ]
            coefficients = [self._code.coefficient(row, column) for row in range(places.parity)]
            _core.multiply_tiles(outputs, [new.slices[column, tile]], coefficients)

    def _scatter(self) -> _Bytes:
        """Xor everybody's blocks, and return this member's."""
        members, blocks, _ = self._sent.shape
        self.sent_bytes += (members - 1) * blocks * TILE
        found = np.empty((blocks, TILE), np.uint8)
        self._group.reduce_scatter(found.reshape(-1), self._sent.reshape(-1), op="bxor")
        self._refuse_holes()
        return found

    def _refuse_holes(self) -> None:
        """Fail, on all members, where a sum lacks somebody's part: it is no parity."""
        outcome = self._group.outcome
        if outcome is not None and outcome.missing:
            raise PeerLost(f"members {list(outcome.missing)} of a code group were lost in an op")

    # ---- making lost bodies again ----------------------------------------------------------------

    def decode(
        self, mine: Shards | None, into: _Bytes | None, bad: Sequence[_Marks | None]
    ) -> Iterator[None]:
        """Make lost tiles of bodies again, where their members are now; collective.

        Yields between rows.

        Parameters
        ----------
        mine : Shards, optional
            What this member has; None: it has lost everything.
        into : numpy.ndarray of uint8, optional
            Of one that has lost something: (slice, tile, byte), written.
        bad : sequence of numpy.ndarray of bool
            By member: which tiles are lost, by shard (slices, then parity) and tile; None: all.

        Raises
        ------
        PeerLost
            Too many are lost, or one more meanwhile.
        """
        places = self.places
        known = [one for one in bad if one is not None]
        tiles = known[0].shape[1] if known else 0
        lost = np.stack(
            [np.ones((places.members, tiles), bool) if one is None else one for one in bad]
        )
        plans: dict[bytes, list[_Plan]] = {}
        for tile in np.flatnonzero(lost[:, : places.data].any(axis=(0, 1))).tolist():
            pattern = lost[:, :, tile]
            key = pattern.tobytes()
            plan = plans[key] = plans.get(key) or self._plan(pattern)
            for part in plan:
                self._make(mine, into, part, tile)
                yield

    def _make(self, mine: Shards | None, into: _Bytes | None, part: _Plan, tile: int) -> None:
        """Make lost slices' tiles of one row; only who has lost them gets anything."""
        members, me = self.places.members, self._group.rank
        given, taken = [0] * members, [0] * members
        sent = np.empty((sum(me in sources for sources in part.values()), TILE), np.uint8)
        # By sender, as they arrive: the columns that a tile is of.
        columns: list[list[int]] = [[] for _ in range(members)]
        done = 0
        for (member, column), sources in part.items():
            if mine is not None and me in sources:
                shard, by = sources[me]
                _core.multiply_tiles([sent[done]], [mine.tile(shard, tile)], [by])
                given[member] += TILE
                done += 1
            if member == me:
                for sender in sources:
                    taken[sender] += TILE
                    columns[sender].append(column)
        found = np.empty((sum(taken) // TILE, TILE), np.uint8)
        self._group.all_to_all(found.reshape(-1), sent.reshape(-1), taken, given)
        self._refuse_holes()
        self.sent_bytes += sum(given) - given[me]
        if into is None:
            return
        begun = set()
        for column, data in zip([one for each in columns for one in each], found, strict=True):
            if column in begun:
                into[column, tile] ^= data
            else:
                into[column, tile] = data
            begun.add(column)

    def renew(self, mine: Shards, bad: _Marks) -> Iterator[None]:
        """Make damaged tiles of parity again; collective, yields between rows.

        Parameters
        ----------
        mine : Shards
            What this member has; its body is whole.
        bad : numpy.ndarray of bool
            By member, row of parity, and tile.
        """
        me = self._group.rank
        for tile in np.flatnonzero(bad.any(axis=(0, 1))).tolist():
            self._contribute(mine, tile)
            found = self._scatter()
            for row in np.flatnonzero(bad[me, :, tile]).tolist():
                mine.rows[row, tile] = found[row]
            yield

    def _plan(self, lost: _Marks) -> list[_Plan]:
        """Return what each lost slice of a row is made of, in parts of bounded size."""
        places = self.places
        columns = max(1, _AT_ONCE // places.data)
        found: list[_Plan] = [{} for _ in range(-(-places.data // columns))]
        for member, column in np.argwhere(lost[:, : places.data]).tolist():
            codeword = places.codeword_of_slice(member, column)
            shards = [places.row(other, codeword) for other in range(places.members)]
            present = [shard for other, shard in enumerate(shards) if not lost[other, shard]]
            sources, _, rows = self._code.plan(present, [column])
            holders = {shards[other]: other for other in range(places.members)}
            found[column // columns][member, column] = {
                holders[shard]: (shard, by) for shard, by in zip(sources, rows[0], strict=True)
            }
        return [part for part in found if part]


def hashes_of(rows: _Bytes, kept: _Marks, old: Hashes | None) -> Hashes:
    """Return the hash of each tile of a member's parity, row by row.

    Parameters
    ----------
    rows : numpy.ndarray of uint8
        By row and tile.
    kept : numpy.ndarray of bool
        By tile: whether it is that of the old parity.
    old : numpy.ndarray, optional
        Hashes of the old parity.
    """
    tiles = rows.shape[1]
    found = np.zeros(len(rows) * tiles, np.uint64)
    for number, tile in enumerate(rows.reshape(-1, TILE)):
        if old is not None and kept[number % tiles]:
            # What is kept keeps its hash, so that a bit that flips in between is found.
            found[number] = old[number]
        else:
            found[number] = xxhash.xxh3_64_intdigest(tile.data)
    return found
