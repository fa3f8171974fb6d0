"""A keeper's decisions about snapshots and flushes, when the others are lost and come back."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from holdfast.ft.state.keeper.making import Making
from holdfast.ft.state.keeper.slots import Slots


class Ops:
    """Of a group that begins anew in one epoch after the other, with nothing."""

    def __init__(self) -> None:
        self.peers = SimpleNamespace(rank=0, size=2, tell_json=lambda _: ({}, ()))
        self.has_guests = False
        self._epoch = 0

    def choose(self, epoch: int, reached: int, refused: Any) -> tuple[int, dict[str, Any]]:
        self._epoch += 1
        return self._epoch, {"fresh": True, "sources": []}

    def renew_guards(self, epoch: int) -> None:
        """There is no code."""

    def rebuild(self, choice: Any) -> Generator[None, None, str]:
        yield
        return ""

    def is_well(self, why: str) -> bool:
        return not why


def committed(making: Making, step: int) -> list[str]:
    """Have a snapshot of two ranks committed; return what is to be done then."""
    machine = making.machine
    capture = next(act for act in machine.take(step, 1, 0.0) if act["do"] == "capture")
    making.slots.all[capture["slot"]].id = (capture["epoch"], step)
    machine.captured(step, 2, 0.0)
    machine.gathered([(step, True, 1, 2)] * 2, [], 0.0)
    machine.coded([], "", 0.0)
    actions = machine.closed([], True, False, 0.0)
    making._learn(actions)
    return [action["do"] for action in actions]


def test_a_flush_that_a_lost_keeper_began_does_not_end_all_flushes(tmp_path: Path) -> None:
    slots: Any = Slots()
    making = Making(slots, lambda _: None, lambda _: "")
    making.flush_to(f"file://{tmp_path}", 2)
    slots.reserve(100, 0)
    ops: Any = Ops()
    list(making.begin_anew(ops, False))
    assert "flush" in committed(making, 2)
    assert "flush" not in committed(making, 4)
    # The other keeper was lost, and the next one has not begun what this one waits for.
    list(making.begin_anew(ops, False))
    assert "flush" in committed(making, 6)
