"""Which unfinished snapshot replicas complete, and what of it each keeper reads of whom."""

from __future__ import annotations

import base64
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from holdfast.errors import ConfigError, ProtocolError
from holdfast.ft.state.keeper.making import Making
from holdfast.ft.state.keeper.replicas import _Hole, _newest, _plans, _put
from holdfast.ft.state.keeper.slots import Part, Slots
from holdfast.ft.state.layout.boxes import Box
from holdfast.ft.state.layout.entry import Entry
from holdfast.ft.state.layout.head import Head


def left(*ranks: int, id: tuple[int, int] = (1, 5), world: int = 3, how: str = "whole") -> Any:
    return {
        "left": [{"id": [*id], "rank": rank, "world": world, "how": how} for rank in ranks],
        "offer": None,
        "whole": [1, 4],
    }


def test_only_what_all_ranks_have_left_and_is_newer_than_a_commit_is_completed():
    assert _newest({0: left(0), 1: left(1), 2: left(2, how="early")}) == (1, 5)
    # A guest has the third part.
    assert _newest({0: left(0), 1: left(2), 2: left(1)}) == (1, 5)
    assert _newest({0: left(0), 1: left(1)}) is None
    assert _newest({0: left(0), 1: left(1), 2: left()}) is None
    assert _newest({0: left(0, 1, id=(1, 4)), 1: left(2, id=(1, 4))}) is None
    assert _newest({0: left(0, 1), 1: left(2, world=4)}) is None
    assert _newest({}) is None


def head(rank: int, *entries: Entry) -> str:
    body = -(-max((one.at + 4 * one.count for one in entries), default=0) // 64) * 64
    made = Head("job", 5, 1, rank, 3, entries, (body, 0), body)
    return base64.b64encode(made.to_bytes()).decode()


def entry(name: str, first: int, count: int, at: int, row: int = 0, rows: int = 6) -> Entry:
    return Entry(name, "float32", (6, 10), (row, 0), (rows, 10), first, count, at)


def test_what_is_missing_is_read_of_the_replicas_and_a_hole_is_an_error():
    early = head(1, entry("w", 25, 35, 0), entry("calls", 0, 60, 192))
    offers = [head(0, entry("w", 0, 30, 0, rows=3)), head(2, entry("w", 0, 30, 64, row=3, rows=3))]
    told = {
        0: {"offer": offers[0], "early": "", "there": []},
        1: {"offer": "", "early": early, "there": [192]},
        2: {"offer": offers[1], "early": "", "there": []},
    }
    holes, readings = _plans(told)[1]
    assert [one.rank for one in readings] == [0, 2]
    assert sum(one.nbytes for one in readings) == 35 * 4
    assert sum(hole.box.count for hole in holes) == 35
    told[2]["offer"] = ""
    with pytest.raises(ProtocolError, match="no image has the elements"):
        _plans(told)
    told[0]["offer"] = ""
    with pytest.raises(ConfigError, match="no tensor 'w'"):
        _plans(told)
    assert _plans({0: {"offer": "", "early": "", "there": []}}) == {}


def test_a_region_is_written_into_its_box():
    body = bytearray(4 * 12 + 8)
    raw = np.arange(6, dtype="<f4").view(np.uint8)
    hole = _Hole(8, 4, Box((10, 20), (3, 4)))
    _put(memoryview(body), hole, Box((11, 21), (2, 2)), raw, (3, 1))
    found = np.frombuffer(body, "<f4", offset=8).reshape(3, 4)
    assert found.tolist() == [[0, 0, 0, 0], [0, 0, 1, 0], [0, 3, 4, 0]]
    assert bytes(body[:8]) == bytes(8)


def test_what_does_not_count_is_left_until_its_memory_is_needed():
    slots = Slots()
    slots.reserve(100, 0)
    slot = slots.all[0]
    slot.begin(Part(3, 50, "a", b"head"))
    slot.body[:] = b"x" * 50
    slot.is_whole, slot.is_committed, slot.parts = True, True, [1, 2]
    slot.drop()
    assert (slot.left, slot.is_whole, slot.is_committed, slot.parts) == ("whole", False, False, [])
    assert slots.newest is None
    assert slots.of(3) is None
    slots.reserve(200, 0)
    again = slots.all[0]
    assert (again.left, bytes(again.body)) == ("whole", b"x" * 50)
    again.begin(Part(4, 50, "a", b"head"))
    assert again.left == ""
    # Of what was cut off nothing is left but what the trainer had copied.
    again.drop()
    assert (again.left, again.part) == ("", None)


def test_what_is_completed_is_not_overwritten_before_the_next_one_counts():
    slots = Slots()
    slots.reserve(100, 0)
    making = Making(slots, lambda _: None, lambda _: "")
    machine = making.machine
    machine.begun(1, 0, 1, None, None, 0.0)
    machine.take(4, 7, 0.0)
    machine.captured(4, 10, 0.0)
    machine.gathered([(4, True, 7, 10)], [], 0.0)
    machine.coded([], "", 0.0)
    machine.closed([], True, False, 0.0)
    assert machine.standing()["committed"] == (1, 4)
    committed, completed = slots.all
    for slot, step in ((committed, 4), (completed, 5)):
        slot.begin(Part(step, 50, "a", b"head"))
        slot.id, slot.is_whole, slot.parts = (1, step), True, [10]
    peers = SimpleNamespace(rank=0, size=1)
    making.settle(SimpleNamespace(peers=peers), 2, {"fresh": False, "id": (1, 5)})
    assert [slot.id for slot in slots.all] == [(1, 5), (0, 0)]
    assert completed.is_committed
    (_, capture) = machine.take(6, 7, 1.0)
    assert slots.all[capture["slot"]] is committed
