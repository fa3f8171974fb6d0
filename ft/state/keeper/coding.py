"""Parity of the keepers' bodies, so that lost ones can be made again from the others.

A group of n = k + m members has n codewords, each with data of k members and parity on the m
others, in rotation (`Places`). Parity is a reduce_scatter with xor: each member multiplies its
tiles by the code's coefficients, and block h of the sum is what member h holds. Making a lost body
again is the same with the coefficients of the inverse. Tiles are done in rows: the t-th tile of
every slice; a row in which nobody's tile has changed keeps its parity, and one in which some have
changed gets the difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import xxhash

from holdfast import _core
from holdfast.comm.group import Group
from holdfast.ft.state.keeper.capture import TILE, Hashes
from holdfast.ft.state.places import Places, slice_tiles

_Bytes = npt.NDArray[np.uint8]


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
        self._sent = np.zeros((n, max(data, parity), TILE), np.uint8)

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
        self, new: Shards, old: Shards | None, changed: npt.NDArray[np.bool_]
    ) -> Iterator[None]:
        """Make the parity of new bodies; collective, yields between rows.

        Parameters
        ----------
        new : Shards
            The body, and room for the parity.
        old : Shards, optional
            Of the snapshot before, with its parity; None: on some member there is none.
        changed : numpy.ndarray of bool
            By slice and tile: whether it differs from the old one; all true without one.
        """
        tiles = new.slices.shape[1]
        marks = np.stack([changed.any(axis=0), ~changed.all(axis=0)]).astype(np.uint8)
        flat = marks.reshape(-1)
        if tiles:
            self._group.all_reduce(flat, op="bor")
        some, not_all = marks[0].astype(bool), marks[1].astype(bool)
        for tile in range(tiles):
            if old is not None and not some[tile]:
                new.rows[:, tile] = old.rows[:, tile]
                continue
            is_difference = old is not None and bool(not_all[tile])
            self._contribute(new, old if is_difference else None, tile)
            found = self._scatter(self.places.parity)
            if is_difference:
                assert old is not None
                found ^= old.rows[:, tile]
            new.rows[:, tile] = found
            yield

    def _contribute(self, new: Shards, old: Shards | None, tile: int) -> None:
        """Fill the blocks with this member's tiles, multiplied; others' rows stay zero."""
        places, me = self.places, self._group.rank
        for column in range(places.data):
            codeword = places.codeword_of_slice(me, column)
            outputs = [
                self._sent[(codeword + row) % places.members, row] for row in range(places.parity)
            ]
            inputs = [new.slices[column, tile]]
            if old is not None:
                inputs.append(old.slices[column, tile])
            coefficients = [
                self._code.coefficient(row, column) for row in range(places.parity) for _ in inputs
            ]
            _core.multiply_tiles(outputs, inputs, coefficients)

    def _scatter(self, blocks: int) -> _Bytes:
        """Xor everybody's blocks, and return this member's."""
        places, me = self.places, self._group.rank
        sent = np.ascontiguousarray(self._sent[:, :blocks])
        found = np.empty((blocks, TILE), np.uint8)
        self._group.reduce_scatter(found.reshape(-1), sent.reshape(-1), op="bxor")
        assert places.members > me
        return found

    # ---- making lost bodies again ----------------------------------------------------------------

    def decode(
        self, mine: Shards | None, into: _Bytes | None, lost: Sequence[int], tiles: int
    ) -> Iterator[None]:
        """Make lost bodies again, where their members are now; collective, yields between rows.

        Parameters
        ----------
        mine : Shards, optional
            What this member has; None: it is one of the lost.
        into : numpy.ndarray of uint8, optional
            Of a lost one: (slice, tile, byte), written.
        lost : sequence of int
            Members that have nothing; parity many at most.
        tiles : int
            Of a slice.

        Raises
        ------
        PeerLost
            Too many are lost.
        """
        plans = self._plans(lost)
        places, me = self.places, self._group.rank
        for tile in range(tiles):
            self._sent[:] = 0
            for (member, column), (sources, coefficients) in plans.items():
                codeword = places.codeword_of_slice(member, column)
                shard = places.row(me, codeword)
                if mine is not None and shard in sources:
                    by = coefficients[sources.index(shard)]
                    _core.multiply_tiles(
                        [self._sent[member, column]], [mine.tile(shard, tile)], [by]
                    )
            found = self._scatter(places.data)
            if into is not None:
                into[:, tile] = found
            yield
        self._sent[:] = 0

    def _plans(self, lost: Sequence[int]) -> dict[tuple[int, int], tuple[list[int], list[int]]]:
        """Return, for each slice of each lost member, which shards are multiplied by what."""
        places = self.places
        found = {}
        for member in lost:
            for column in range(places.data):
                codeword = places.codeword_of_slice(member, column)
                present = [
                    places.row(other, codeword)
                    for other in range(places.members)
                    if other not in lost
                ]
                sources, _, rows = self._code.plan(present, [column])
                found[member, column] = (sources, rows[0])
        return found


def hashes_of(rows: _Bytes) -> Hashes:
    """Return the hash of each tile of a member's parity, row by row."""
    tiles = rows.reshape(-1, TILE)
    return np.array([xxhash.xxh3_64_intdigest(tile.data) for tile in tiles], np.uint64)
