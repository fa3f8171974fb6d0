"""A code group that loses a member in an op: no parity, and no body, is made of that."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from holdfast.errors import PeerLost, ProtocolError
from holdfast.ft.state.keeper.capture import TILE
from holdfast.ft.state.keeper.coding import Coding
from holdfast.ft.state.keeper.ops import Ops
from holdfast.ft.state.keeper.slots import Part, Slots


class Group:
    """Member 0 of three; a member is lost in the op of a number."""

    rank, size = 0, 3

    def __init__(self, lost_in: int) -> None:
        self._lost_in, self._ops = lost_in, 0
        self.outcome = SimpleNamespace(missing=())

    def _done(self) -> None:
        self.outcome = SimpleNamespace(missing=(2,) if self._ops >= self._lost_in else ())
        self._ops += 1

    def all_reduce(self, values: Any, op: str) -> None:
        self._done()

    def all_gather(self, output: Any, input: Any) -> None:
        output[:] = 1
        self._done()

    def all_to_all(self, output: Any, input: Any, taken: list[int], given: list[int]) -> None:
        output[:] = 0
        self._done()

    def reduce_scatter(self, output: Any, input: Any, op: str) -> None:
        output[:] = 0
        self._done()


@pytest.mark.parametrize("lost_in", [0, 1, 2])
def test_parity_that_lacks_a_member_is_none(lost_in: int) -> None:
    coding = Coding(Group(lost_in), 2, 1)
    body, parity = (memoryview(bytearray(n * 2 * TILE)) for n in (2, 1))
    shards = coding.shards(body, parity, 4 * TILE)
    work = coding.encode(shards, None, np.ones((2, 2), bool), lambda rows: rows)
    for _ in range(lost_in - 1):
        next(work)
    with pytest.raises(PeerLost, match="were lost in an op"):
        next(work)


def test_a_member_that_is_lost_while_another_is_decoded_ends_it() -> None:
    coding = Coding(Group(1), 2, 1)
    body, parity = (memoryview(bytearray(n * 2 * TILE)) for n in (2, 1))
    none = np.zeros((3, 2), bool)
    with pytest.raises(PeerLost):
        list(coding.decode(coding.shards(body, parity, 4 * TILE), None, [none, None, none]))


def ops(slots: Slots, told: dict[int, Any], missing: tuple[int, ...]) -> Ops:
    """Of rank 0 in a code group of three whose members tell these things."""
    peers: Any = SimpleNamespace(rank=0, size=3)
    found = Ops(peers, slots, [0, 1, 2], 1, lambda *_: None, 3)
    found._guards = SimpleNamespace(tell_json=lambda _: (told, missing))
    found._coding = Coding(Group(99), 2, 1)
    return found


def test_a_snapshot_of_whose_members_one_is_gone_gets_no_parity() -> None:
    slots = Slots()
    slots.reserve(4 * TILE, 2 * TILE)
    slot = slots.all[0]
    slot.begin(Part(3, 100, "layout", b"head"))
    slot.hashes = np.zeros(1, np.uint64)
    with pytest.raises(PeerLost, match="before its parity"):
        list(ops(slots, {}, (2,)).code(slot))
    assert len(slot.row_hashes) == 0


def test_what_nobody_knows_of_is_an_error_on_all() -> None:
    told = {member: {"guarded": {"0": None}, "largest": 100} for member in range(3)}
    choice = {"id": (1, 3), "sources": [{"kind": "decode", "repair": [], "rank": 1}], "parts": []}
    there = ops(Slots(), told, ())
    there.sources = SimpleNamespace(is_home=True)
    with pytest.raises(ProtocolError, match=r"nobody knows what the keepers of ranks \[1\] had"):
        list(there.rebuild(choice))
