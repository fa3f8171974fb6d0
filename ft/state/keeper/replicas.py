"""A snapshot that a lost trainer has left unfinished, completed by replicas that live.

Who loses a peer stands where its last snapshot was taken, and gives its keeper all that it has of
parameters and optimisers' state. The lost rank's keeper has what the trainer had copied itself:
generators, loaders, buffers. What is missing beside that is read from the replicas' part. So nobody
goes back a step, and all have the bits that they would have had.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from holdfast.errors import ConfigError, ProtocolError
from holdfast.ft.state.keeper.capture import Tiles
from holdfast.ft.state.keeper.memory import mapped
from holdfast.ft.state.keeper.peers import Peers
from holdfast.ft.state.keeper.slots import Id, Slot, Slots, digest_of
from holdfast.ft.state.keeper.wire import Message
from holdfast.ft.state.layout.boxes import Box, of_range
from holdfast.ft.state.layout.head import Head
from holdfast.ft.state.layout.plan import Index, Reading, Wanted, plan


class Offer:
    """What a trainer has given of its state after a loss: all of it that others may have as well.

    Parameters
    ----------
    message : Message
        Of kind ``offer``, with one descriptor.
    """

    def __init__(self, message: Message) -> None:
        self.head = message.blob
        head = Head.from_bytes(message.blob)
        self.id: Id = (head.epoch, head.step)
        self.rank = head.rank
        self._map = mapped(message.descriptors[0], max(1, head.body))
        self.body = memoryview(self._map)[: head.body]


class _Hole(NamedTuple):
    """Where bytes of a body are missing, and of which box of which tensor they are."""

    at: int
    item: int
    box: Box


def complete(peers: Peers, slots: Slots, offer: Offer | None) -> Iterator[None]:
    """Complete the newest snapshot that is left, where that can be; collective.

    It is whole then, as if all had captured it.
    """
    told, _ = peers.tell_json(
        {
            "left": [
                {"id": one.id, "rank": one.seat.rank, "world": one.seat.world, "how": one.left}
                for one in slots.all
                if one.left
            ],
            "offer": None if offer is None else [offer.id, offer.rank],
            "whole": max((one.id for one in slots.all if one.is_whole), default=(0, 0)),
        }
    )
    id = _newest(told)
    if id is None:
        return
    slot = next((one for one in slots.all if one.left and one.id == id), None)
    holders = _holders(told, id)
    if slot is not None and holders.get(slot.seat.rank) != peers.rank:
        slot = None
    gives = offer if offer is not None and offer.id == id else None
    heads, _ = peers.tell_json(
        {
            "offer": _text(gives.head) if gives is not None else "",
            "early": _text(slot.part.head) if slot and slot.part and slot.left == "early" else "",
            "there": slot.early if slot is not None else [],
        }
    )
    try:
        plans = _plans(heads)
    except (ConfigError, ProtocolError):
        return  # some shard has no replica that lives: the same for all
    yield from _fill(peers, slot, gives, plans, told, id)
    mine = {} if slot is None else {"rank": slot.seat.rank, "hashes": digest_of(slot.hashes)}
    hashes, _ = peers.tell_json(mine)
    by_rank = {one["rank"]: one["hashes"] for one in hashes.values() if one}
    if slot is not None and sorted(by_rank) == [*range(slot.seat.world)]:
        slot.parts = [by_rank[rank] for rank in sorted(by_rank)]
        slot.is_whole, slot.left = True, ""


def _newest(told: Mapping[int, Any]) -> Id | None:
    """Return the newest snapshot of which all ranks have left something; the same on all."""
    most = max((tuple(one["whole"]) for one in told.values()), default=(0, 0))
    ids = {tuple(each["id"]) for one in told.values() for each in one["left"]}
    for id in sorted(ids, reverse=True):
        left = [x for one in told.values() for x in one["left"] if tuple(x["id"]) == id]
        ranks, worlds = {each["rank"] for each in left}, {each["world"] for each in left}
        if id > most and len(worlds) == 1 and ranks == set(range(*worlds)):
            return int(id[0]), int(id[1])
    return None


def _holders(told: Mapping[int, Any], id: Id) -> dict[int, int]:
    """Return who has what is left of which rank's part."""
    found: dict[int, int] = {}
    for member in sorted(told, reverse=True):
        for each in told[member]["left"]:
            if tuple(each["id"]) == id:
                found[each["rank"]] = member
    return found


def _plans(heads: Mapping[int, Any]) -> dict[int, tuple[list[_Hole], list[Reading]]]:
    """Return what each keeper is to read of the offers; the same on all.

    Raises
    ------
    ConfigError, ProtocolError
        The offers have not all of it.
    """
    offers = [Head.from_bytes(_bytes(one["offer"])) for one in heads.values() if one["offer"]]
    entries: dict[str, list[tuple[int, Any]]] = {}
    for head in offers:
        for entry in head.entries:
            entries.setdefault(entry.name, []).append((head.rank, entry))
    saved = Index({head.rank: head for head in offers}, entries, tuple(sorted(entries)))
    found = {}
    for member, one in heads.items():
        if not one["early"]:
            continue
        holes: list[_Hole] = []
        wanted: list[Wanted] = []
        there = set(one["there"])
        for entry in Head.from_bytes(_bytes(one["early"])).entries:
            if entry.at in there or not entry.count:
                continue
            for part, before in of_range(entry.size, entry.first, entry.count):
                box = part.moved(entry.offset)
                holes.append(_Hole(entry.at + before * entry.item, entry.item, box))
                wanted.append(Wanted(entry.name, entry.dtype, entry.shape, (box,)))
        found[member] = (holes, plan(saved, wanted))
    return found


def _fill(
    peers: Peers,
    slot: Slot | None,
    gives: Offer | None,
    plans: Mapping[int, tuple[list[_Hole], list[Reading]]],
    told: Mapping[int, Any],
    id: Id,
) -> Iterator[None]:
    """Read what is missing here from the offers of others; collective."""
    if not plans:
        return
    holes, readings = plans.get(peers.rank, ([], []))
    wanted = [
        (one.rank, int(start), int(length))
        for one in readings
        for start, length in zip(one.starts, one.lengths, strict=True)
    ]
    data = np.empty(sum(count for _, _, count in wanted), np.uint8)
    of_it = [m for m, one in told.items() if one["offer"] and tuple(one["offer"][0]) == id]
    holders = {told[member]["offer"][1]: member for member in of_it}
    bodies = {} if gives is None else {gives.rank: gives.body}
    yield from peers.exchange(wanted, bodies, holders, data.data)
    if slot is None or not readings:
        return
    at = 0
    for one in readings:
        for piece in one.pieces:
            hole = holes[piece.wanted]
            raw = data[at + piece.at : at + piece.at + piece.nbytes]
            _put(slot.region.view, hole, piece.region, raw, piece.strides)
        at += one.nbytes
    tiles = Tiles(slot.body)
    tiles.complete(len(slot.body))
    slot.hashes = tiles.hashes


def _put(body: memoryview, hole: _Hole, region: Box, raw: Any, strides: tuple[int, ...]) -> None:
    """Write a region of a box, whose elements lie one after the other in a body."""
    item = hole.item
    there = np.frombuffer(body[hole.at : hole.at + hole.box.count * item], np.uint8)
    target = there.reshape(*hole.box.size, item)
    inside = region.inside(hole.box)
    spans = zip(inside.offset, inside.size, strict=True)
    source = np.lib.stride_tricks.as_strided(
        raw, (*region.size, item), (*(step * item for step in strides), 1)
    )
    target[tuple(slice(start, start + length) for start, length in spans)] = source


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)
