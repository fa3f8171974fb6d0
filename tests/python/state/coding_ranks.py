"""Ranks of test_coding.py: members of a code group, each with a slot as keepers have it."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
from coded_files import body_of, parity_of

import holdfast
from holdfast.ft.state.files.container import hashes
from holdfast.ft.state.keeper import coding
from holdfast.ft.state.keeper.ops import Ops
from holdfast.ft.state.keeper.peers import Peers
from holdfast.ft.state.keeper.slots import Part, Slot, Slots, digest_of
from holdfast.ft.state.places import TILE, room, slice_tiles

FLIPS = 20
# So that a row is made again in several parts.
coding._AT_ONCE = 3


class Member:
    """One of them; all know everybody's bodies, so that each can judge."""

    def __init__(self) -> None:
        self.k, self.m = map(int, os.environ["CODE"].split("+"))
        self.n, self.rank = self.k + self.m, int(os.environ["RANK"])
        self.bodies = [body_of(rank, 0) for rank in range(self.n)]
        self.tiles = slice_tiles(max(map(len, self.bodies)), self.k)
        self.slots = Slots()
        self.slots.reserve(*room(self.k, self.m, max(map(len, self.bodies))))
        peers = Peers(holdfast.init(name="all"))
        self.ops = Ops(
            peers,
            self.slots,
            range(self.n),
            self.m,
            lambda name, *_: holdfast.init(name=name),
            self.n,
        )
        self.ops.renew_guards(1)
        self.step = 0

    @property
    def slot(self) -> Slot:
        return self.slots.all[self.step % 2]

    def change(self, rank: int, *tiles: int) -> None:
        for tile in tiles:
            part = self.bodies[rank][tile * TILE : (tile + 1) * TILE]
            part[:] = np.random.default_rng([rank, tile, self.step]).integers(0, 256, len(part))

    def snapshot(self) -> int:
        """Take the bodies as they are; return the tiles that were sent."""
        self.step += 1
        slot, mine = self.slot, self.bodies[self.rank]
        slot.begin(Part(self.step, len(mine), "layout", b"head"))
        slot.body[:] = mine.data
        slot.hashes = np.array(hashes(mine.data), np.uint64)
        slot.id, slot.seat = (1, self.step), self.ops.seat
        before = self.ops.sent_bytes
        done(self.ops.code(slot))
        slot.parts = [digest_of(np.array(hashes(b.data), np.uint64)) for b in self.bodies]
        for one in self.slots.all:
            one.is_committed = one is slot
        slot.is_whole = True
        self.judge()
        return (self.ops.sent_bytes - before) // TILE

    def judge(self) -> None:
        slot = self.slot
        assert bytes(slot.body) == self.bodies[self.rank].tobytes()
        parity = parity_of(self.bodies, self.k, self.m)[self.rank]
        assert bytes(slot.parity_view) == parity.tobytes()
        assert slot.damaged_rows() == []

    def restore(self, *refused: tuple[int, int]) -> tuple[dict[str, Any], str]:
        _, choice = self.ops.choose(1, self.step, refused)
        return choice, done(self.ops.rebuild(choice))


def done(task: Iterator[None]) -> Any:
    while True:
        try:
            next(task)
        except StopIteration as end:
            return end.value


def codes() -> None:
    here = Member()
    full = here.snapshot()
    assert full == here.tiles * here.m * (here.n - 1)
    only_what_has_changed_is_sent(here)
    damage_of_the_one_before_is_not_carried_on(here)
    what_is_behind_a_bodys_end_is_zero(here)
    damaged_tiles_are_made_again(here)
    what_was_made_with_other_bytes_is_refused(here)


def only_what_has_changed_is_sent(here: Member) -> None:
    assert here.snapshot() == 0
    here.change(0, 1)
    assert here.snapshot() == (here.m if here.rank == 0 else 0)
    here.change(0, 0, 3)
    here.change(2, 2)
    assert here.snapshot() == {0: 2 * here.m, 2: here.m}.get(here.rank, 0)


def damage_of_the_one_before_is_not_carried_on(here: Member) -> None:
    if here.rank == 1:
        here.slot.parity.view[5] ^= 1
    here.snapshot()
    here.change(2, 0)
    if here.rank == 2:
        here.slot.region.view[77] ^= 1
    here.snapshot()


def what_is_behind_a_bodys_end_is_zero(here: Member) -> None:
    if here.rank == 1:
        here.slot.region.view[len(here.slot.body) + 5] ^= 1
    here.change(1, 0)
    here.snapshot()


def damaged_tiles_are_made_again(here: Member) -> None:
    # One on each of two ranks, of different rows; that of rank 1 is behind its body's end.
    if here.rank < 2:
        here.slot.region.view[here.rank * TILE * (here.tiles - 1) + 3] ^= 8
    choice, why = here.restore()
    assert (choice["id"], why) == ((1, here.step), "")
    here.judge()
    chance = random.Random(5)
    for _ in range(FLIPS):
        rank, in_body = chance.randrange(here.n), chance.random() < 0.7
        place, bit = chance.random(), chance.randrange(8)
        if here.rank == rank:
            view = here.slot.body if in_body else here.slot.parity_view
            view[int(place * len(view))] ^= 1 << bit
        choice, why = here.restore()
        assert (choice["id"], why) == ((1, here.step), "")
        here.judge()
    # More than the code stands, of one row: then it is the one before.
    here.snapshot()
    here.change(0, 0)
    here.snapshot()
    if here.rank <= here.m:
        here.slot.region.view[9] ^= 1
        here.slot.parity.view[: here.m * here.tiles * TILE] = bytes(here.m * here.tiles * TILE)
    choice, why = here.restore()
    assert (choice["id"], why) == ((1, here.step - 1), ""), choice


def what_was_made_with_other_bytes_is_refused(here: Member) -> None:
    here.snapshot()
    here.change(0, 0)
    here.snapshot()
    last = here.slot
    if here.rank:
        # Parity that nobody can know to be wrong.
        last.parity_view[:] = bytes(len(last.parity_view))
        last.row_hashes = np.array(hashes(last.parity_view), np.uint64)
    else:
        for one in here.slots.all:
            one.clear()
    choice, why = here.restore()
    assert choice["id"] == (1, here.step)
    assert bool(why) == (here.rank == 0)
    assert not here.ops.is_well(why)
    choice, why = here.restore((1, here.step))
    assert (choice["id"], why) == ((1, here.step - 1), "")
    assert here.ops.is_well(why)
