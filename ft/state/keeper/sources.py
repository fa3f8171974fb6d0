"""Where the parts of a chosen snapshot are, and how those that are lost are made again.

A snapshot may be of other ranks than there are now: of more or fewer, or in other code groups. Then
whoever has a part of it gives it, and what is lost is put together from the others' parts, by one
keeper for each, for as long as the restore takes.
"""

from __future__ import annotations

import base64
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from holdfast import _core
from holdfast.errors import ProtocolError
from holdfast.ft.state.keeper.capture import TILE, Tiles
from holdfast.ft.state.keeper.memory import Region
from holdfast.ft.state.keeper.peers import Peers, Range
from holdfast.ft.state.keeper.slots import Id, Part, Slots
from holdfast.ft.state.places import Places, slice_tiles

# Tiles of a lost part that are put together at a time: bounds what is in memory of the others'.
_AT_ONCE = 16


class _Tile(NamedTuple):
    """How a tile of a lost part is made."""

    rank: int
    number: int
    shards: tuple[Range, ...]
    coefficients: tuple[int, ...]


class Sources:
    """Of one choice.

    Parameters
    ----------
    choice : mapping
        Of `_core.choose_snapshot`.
    reports : sequence of mapping
        Of all keepers.
    seats : mapping of int to tuple
        By keeper, the ranks and the parity of its code group now.
    trainers : int
        Keepers with trainers, from 0 on.
    peers : Peers
        All keepers.
    """

    def __init__(
        self,
        choice: Mapping[str, Any],
        reports: Sequence[Mapping[str, Any]],
        seats: Mapping[int, tuple[list[int], int]],
        trainers: int,
        peers: Peers,
    ) -> None:
        self.id: Id = tuple(choice["id"])
        self._peers, self._world = peers, len(choice["parts"])
        self._of = [
            one
            for one in reports
            if one["id"] == self.id and list(one["parts"]) == list(choice["parts"])
        ]
        self.is_home = self._world == trainers == peers.size and all(
            one["holder"] == one["rank"] and seats.get(one["rank"]) == (one["group"], one["parity"])
            for one in self._of
        )
        self._lost = [s for s in choice["sources"] if s["kind"] == "decode" or s["repair"]]
        #: Whether parity is to be made again where it was, so that another loss costs nothing.
        self.lacks_parity = self.is_home and (
            bool(self._lost) or any(not all(one["rows"]) for one in self._of)
        )
        #: Who has, or makes, which rank's body.
        self._holders = {}
        for one in choice["sources"]:
            rank, is_gone = int(one["rank"]), one["kind"] == "decode"
            maker = rank if self.is_home else rank % trainers
            self._holders[rank] = maker if is_gone else int(one["holder"])
        self._made: dict[int, tuple[Part, Region]] = {}

    # ---- what is given ---------------------------------------------------------------------------

    def heads(self, slots: Slots) -> dict[int, bytes]:
        """Return the heads of all parts, by the ranks of then; collective."""
        mine = {rank: base64.b64encode(part.head).decode() for rank, part in self._parts(slots)}
        told, _ = self._peers.tell_json({"heads": mine})
        found = {int(r): text for one in told.values() for r, text in one["heads"].items()}
        return {rank: base64.b64decode(found[rank]) for rank in sorted(found)}

    def own(self, slots: Slots) -> dict[int, tuple[Region, int]]:
        """Return the bodies that this keeper gives, and their bytes, by the ranks of then."""
        found = {rank: (region, part.nbytes) for rank, (part, region) in self._made.items()}
        slot = slots.with_id(self.id)
        if slot is not None and self._holders.get(slot.seat.rank) == self._peers.rank:
            found.setdefault(slot.seat.rank, (slot.region, len(slot.body)))
        return found

    def fetch(self, slots: Slots, wanted: Sequence[Range], into: memoryview) -> Iterator[None]:
        """Fetch ranges of bodies, once all are as they were captured; collective.

        Also for who wants nothing. What was made again for it is there until `forget`.
        """
        bodies = {rank: region.view[: part.nbytes] for rank, (part, region) in self._made.items()}
        slot, damaged = slots.with_id(self.id), 0
        if slot is not None and slot.seat.rank not in bodies:
            bodies[slot.seat.rank] = slot.body
            damaged = len(slot.damaged())
        told, _ = self._peers.tell_json({"damaged": damaged})
        if wrong := {rank: one["damaged"] for rank, one in told.items() if one["damaged"]}:
            raise ProtocolError(
                f"tiles of ranks' keepers have changed in memory since they were checked: {wrong}"
            )
        yield from self._peers.exchange(wanted, bodies, self._holders, into)

    def forget(self) -> None:
        """Give back what was made again."""
        for _, region in self._made.values():
            region.close()
        self._made.clear()

    def _parts(self, slots: Slots) -> Iterator[tuple[int, Part]]:
        """Yield the parts that this keeper gives."""
        slot = slots.with_id(self.id)
        if slot is not None and slot.part is not None:
            rank = slot.seat.rank
            if self._holders.get(rank) == self._peers.rank and rank not in self._made:
                yield rank, slot.part
        for rank, (part, _) in self._made.items():
            yield rank, part

    # ---- what is made again ----------------------------------------------------------------------

    def rebuild(self, slots: Slots) -> Generator[None, None, str]:
        """Put together what is lost, of all the others have; collective.

        Returns
        -------
        str
            Why what was made is not what was captured; empty: it is.
        """
        if not self._lost:
            return ""
        me, slot = self._peers.rank, slots.with_id(self.id)
        lost = [int(one["rank"]) for one in self._lost]
        guards = slot.guarded if slot is not None else {}
        told, _ = self._peers.tell_json(
            {
                "guarded": {str(r): packed(*guards[r]) for r in lost if r in guards},
                "largest": slot.largest if slot is not None else 0,
                "rank": slot.seat.rank if slot is not None else -1,
            }
        )
        parts = {}
        for rank in lost:
            texts = [one["guarded"][str(rank)] for one in told.values() if _has(one, rank)]
            if not texts:
                raise ProtocolError(f"the part of rank {rank} is lost, and there is no code")
            parts[rank] = unpacked(texts[0])
        largest = {one["rank"]: one["largest"] for one in told.values()}
        mine: list[_Tile] = []
        most = 0
        for maker in sorted({self._holders[rank] for rank in lost}):
            tiles = [
                tile
                for rank in lost
                if self._holders[rank] == maker
                for tile in self._tiles(rank, parts[rank][0].nbytes, largest)
            ]
            most = max(most, len(tiles))
            mine = tiles if maker == me else mine
        for rank in lost:
            if self._holders[rank] == me:
                self._begin(rank, parts[rank][0], slots)
        bodies, holders = self._shards(slots)
        for first in range(0, most, _AT_ONCE):
            yield from self._make(mine[first : first + _AT_ONCE], bodies, holders)
        for rank, (part, region) in self._made.items():
            if wrong := Tiles(region.view[: part.nbytes]).damaged(parts[rank][1]):
                return f"{len(wrong)} tiles of rank {rank} were made again with other hashes"
        return ""

    def _begin(self, rank: int, part: Part, slots: Slots) -> None:
        """Have room for a part; what is there of it is in it."""
        region = Region(f"part of rank {rank}", max(1, -(-part.nbytes // TILE)) * TILE)
        slot = slots.with_id(self.id)
        if slot is not None and slot.seat.rank == rank:
            region.view[: part.nbytes] = slot.body
        self._made[rank] = (part, region)

    def _shards(self, slots: Slots) -> tuple[dict[int, memoryview], dict[int, int]]:
        """Return padded bodies, parity under the number rank + world, and who has them."""
        slot, bodies = slots.with_id(self.id), {}
        if slot is not None:
            bodies = {
                slot.seat.rank: slot.region.view,
                slot.seat.rank + self._world: slot.parity.view,
            }
        holders = {int(one["rank"]): int(one["holder"]) for one in self._of}
        return bodies, holders | {rank + self._world: at for rank, at in holders.items()}

    def _make(
        self, tiles: Sequence[_Tile], bodies: Mapping[int, memoryview], holders: Mapping[int, int]
    ) -> Iterator[None]:
        wanted = [one for tile in tiles for one in tile.shards]
        data = np.empty((len(wanted), TILE), np.uint8)
        yield from self._peers.exchange(wanted, bodies, holders, data.reshape(-1).data)
        at = 0
        for tile in tiles:
            inputs = [*data[at : at + len(tile.shards)]]
            at += len(tile.shards)
            _, region = self._made[tile.rank]
            output = np.frombuffer(region.view, np.uint8)[tile.number * TILE :][:TILE]
            _core.multiply_tiles([output], inputs, list(tile.coefficients))

    def _tiles(self, rank: int, nbytes: int, largest: Mapping[int, int]) -> Iterator[_Tile]:
        """Yield how each tile that is lost of a rank's part is made."""
        report = next(one for one in self._of if rank in one["group"])
        group, parity = report["group"], report["parity"]
        places = Places(len(group) - parity, parity)
        code = _core.ErasureCode(places.data, parity)
        slice_ = slice_tiles(largest[report["rank"]], places.data)
        damaged = next(one["repair"] for one in self._lost if one["rank"] == rank)
        seat = group.index(rank)
        for number in damaged or range(-(-nbytes // TILE)):
            column, tile = divmod(number, slice_)
            codeword = places.codeword_of_slice(seat, column)
            shards = {}
            for member, other in enumerate(group):
                shard = places.row(member, codeword)
                if other != rank and self._has_tile(other, shard, tile, places.data, slice_):
                    is_parity = shard >= places.data
                    which = shard - places.data if is_parity else shard
                    at = (which * slice_ + tile) * TILE
                    shards[shard] = (other + self._world * is_parity, at, TILE)
            used, _, rows = code.plan([*shards], [column])
            yield _Tile(rank, number, tuple(shards[one] for one in used), tuple(rows[0]))

    def _has_tile(self, rank: int, shard: int, tile: int, data: int, slice_: int) -> bool:
        """Return whether a rank's keeper has a tile of its shard as it was."""
        report = next((one for one in self._of if one["rank"] == rank), None)
        if report is None:
            return False
        if shard < data:
            is_its = report["hashes"] == report["parts"][rank]
            return is_its and shard * slice_ + tile not in report["damaged"]
        row = shard - data
        return bool(report["rows"][row]) and (row, tile) not in report["damaged_rows"]


def _has(told: Mapping[str, Any], rank: int) -> bool:
    return str(rank) in told["guarded"]


def packed(part: Part, hashes: Any) -> dict[str, Any]:
    """Return what another keeper is to know of a part."""
    return {
        "step": part.step,
        "nbytes": part.nbytes,
        "layout": part.layout,
        "head": base64.b64encode(part.head).decode(),
        "hashes": base64.b64encode(hashes.tobytes()).decode(),
    }


def unpacked(told: Mapping[str, Any]) -> tuple[Part, Any]:
    """Return what `packed` has told."""
    head = base64.b64decode(told["head"])
    part = Part(told["step"], told["nbytes"], told["layout"], head)
    return part, np.frombuffer(base64.b64decode(told["hashes"]), np.uint64).copy()
