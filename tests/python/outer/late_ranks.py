"""Peers of an elastic group, one of whom stands still for three rounds while others come and go."""

from __future__ import annotations

import json
import os
import threading
import time
import zlib
from typing import Any

import torch
from late_methods import GRACED, LIMIT_S, LONG_S, SHORT_S, train
from methods import H, bits, local_step, model
from outer_ranks import end_when_begun, flat

import holdfast
from holdfast import ft

# Members at the beginning; what is waited for of their number, and rounds after that.
FIRST, ROUNDS_AFTER = 3, 5
WANTED = {"fewer": FIRST - 1, "joined": FIRST + 1}.get(os.environ.get("WANTED", ""), 0)
ROUND_S = 0.02


class Change:
    """The row of the boundary at which there were as many members as are wanted."""

    def __init__(self, trainer: ft.Trainer) -> None:
        self.row: int | None = None
        self._trainer, self._pass = trainer, trainer._pass_boundary
        trainer._pass_boundary = self._note  # type: ignore[method-assign]

    def _note(self, *arguments: Any, **more: Any) -> holdfast.View:
        # On the stand-in's thread, too.
        view = self._pass(*arguments, **more)
        if self.row is None and len(view.ranks) == WANTED:
            self.row = self._trainer.steps
        return view


def live() -> None:
    torch.set_num_threads(1)
    with holdfast.join(os.environ["URL"], min_peers=FIRST) as group:
        _live(group, os.environ["ROLE"])


def _live(group: holdfast.Group, role: str) -> None:
    net = model()
    inner = torch.optim.AdamW(net.parameters(), 3e-3)
    grace = SHORT_S if role == "late" else LONG_S
    trainer = GRACED[os.environ["METHOD"]](net, inner, group, grace_s=grace)
    change = Change(trainer)
    steps = torch.zeros(1, dtype=torch.int64)
    trainer.advance({"steps": steps}, each_round=True)
    has_told = False
    while change.row is None or trainer.steps < change.row + ROUNDS_AFTER * H:
        if role == "late" and trainer.steps >= 3 * H + 2:
            _stand_still(trainer, change)
            role = "stays"
        is_late = trainer.last is not None and bool(trainer.last.late)
        if is_late and not has_told:
            print("LATE", trainer.last.late, flush=True)
            has_told = True
        if is_late and role == "dies":
            end_when_begun(trainer)
        steps += 1
        try:
            local_step(trainer, net, group.rank, trainer.steps)
        except holdfast.PeerLost:
            # With on_peer_loss="raise": after the same row on all, of a late one when it is back.
            print("LOST", trainer.steps, zlib.crc32(bits(trainer)), flush=True)
            trainer.advance({"steps": steps}, each_round=True)
        if trainer.at_boundary:
            weights = trainer.last.weights if trainer.last else {}
            told = (trainer.steps, zlib.crc32(bits(trainer)), sum(weights.values()))
            print("ROUND", *told, flush=True)
            time.sleep(ROUND_S)
    trainer.finish()
    found = {
        "bits": zlib.crc32(bits(trainer)),
        "model": zlib.crc32(flat(net).numpy().tobytes()),
        "steps": trainer.steps,
        "members": sorted(trainer.last.weights) if trainer.last else [],
    }
    print("END", json.dumps(found), flush=True)


def _stand_still(trainer: ft.Trainer, change: Change) -> None:
    """Until three rounds are over, and the others have seen the change."""
    assert trainer._stand_in is not None
    end, until = trainer.steps + 3 * H, time.monotonic() + LIMIT_S
    pause = threading.Event()
    failed = False
    while not failed and (trainer.steps < end or change.row is None):
        failed = trainer._stand_in._error is not None
        assert time.monotonic() < until, "nobody stands in, or nothing has changed"
        pause.wait(0.005)
    trainer._stand_in.grace_s = LONG_S
    print("BACK", trainer.steps, flush=True)


def still() -> None:
    """Of ranks over BACKEND, the last one stands still; what is shared after each step."""
    from torch_world import join

    rank, size = join(os.environ["BACKEND"])
    found: dict[str, list[int]] = {}
    for kind in os.environ["KINDS"].split(";"):
        net = model()
        inner = torch.optim.AdamW(net.parameters(), 3e-3)
        trainer = GRACED[kind](net, inner, None, grace_s=LONG_S)
        trail = _trail(trainer)
        is_late = rank == size - 1
        train(trainer, net, rank, 10, 3 * H + 2 if is_late else None)
        trainer.finish()
        assert zlib.crc32(flat(net).numpy().tobytes()) == zlib.crc32(bits(trainer))
        found[kind] = [*trail, zlib.crc32(bits(trainer))]
        assert trainer.steps == 10 * H
    print("FOUND", json.dumps(found), flush=True)
    from outer_ranks import leave

    leave()


def _trail(trainer: ft.Trainer) -> list[int]:
    """Of each outer step, on whichever thread, who was late in it, and what is shared."""
    mix, trail = trainer._mix, []

    def mixed(fragment: int) -> None:
        mix(fragment)
        late = trainer.last.late if trainer.last else ()
        trail.append(zlib.crc32(bits(trainer) + bytes(late)))

    trainer._mix = mixed  # type: ignore[method-assign]
    return trail
