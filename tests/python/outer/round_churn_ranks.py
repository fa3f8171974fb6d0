"""Peers of an elastic group that train in rounds, come, go, and are away for a while."""

from __future__ import annotations

import json
import os
import signal
import time
import zlib

import torch
from methods import BATCHED, METHODS, H, bits, local_step, model
from outer_ranks import end_when_begun, flat

import holdfast
from holdfast import ft

# What members wait to see of their number, one after the other, before they end.
WANTED = os.environ.get("WANTED", "").split()
# Rounds after the last of it, and rounds after which what is waited for is missed.
ROUNDS_AFTER, MOST_ROUNDS = 4, 600
ROUND_S = 0.03


DONATED = {
    "diloco": lambda m, i, g: ft.DiLoCo(m, i, g, inner_steps=H, inner_state="donor"),
    "eager": lambda m, i, g: ft.AsyncDiLoCo(m, i, g, inner_steps=H, inner_state="donor"),
}


def make(net: torch.nn.Module, group: holdfast.Group) -> ft.Trainer:
    kind = os.environ["METHOD"]
    inner = torch.optim.AdamW(net.parameters(), 3e-3)
    if kind.startswith("batched "):
        return BATCHED[kind.removeprefix("batched ")](net, inner, group)
    if kind.startswith("donated "):
        return DONATED[kind.removeprefix("donated ")](net, inner, group)
    return METHODS[kind](net, inner, group)


class Life:
    """What members have seen, the same on all: places in WANTED, members, rounds since."""

    def __init__(self) -> None:
        self.seen = torch.zeros(3, dtype=torch.int64)

    def at(self, view: holdfast.View) -> None:
        place, before, _ = self.seen.tolist()
        wanted = WANTED[place] if place < len(WANTED) else ""
        fewer = wanted == "fewer" and len(view.ranks) < before
        if fewer or (wanted == "joined" and view.joined and before):
            self.seen[0] += 1
        self.seen[1] = len(view.ranks)
        self.seen[2] += int(self.seen[0]) == len(WANTED)

    @property
    def ends(self) -> bool:
        return int(self.seen[2]) >= ROUNDS_AFTER


def live() -> None:
    torch.set_num_threads(1)
    try:
        with holdfast.join(os.environ["URL"], min_peers=int(os.environ["MIN"])) as group:
            _live(group, os.environ["ROLE"])
    except holdfast.NotMember:
        # The others have gone on; a process that starts anew comes in where they are.
        print("OUT", flush=True)


def _live(group: holdfast.Group, role: str) -> None:
    net = model()
    trainer = make(net, group)
    life = Life()
    life.at(trainer.advance({"life": life.seen}, each_round=True))
    if view_joined(trainer):
        _tell_inner(trainer)
    first = trainer.steps
    view = trainer.view
    while not life.ends:
        assert trainer.steps < MOST_ROUNDS * H, "waited for what did not come"
        mine = trainer.steps - first
        # In mid-round; some have a single step in a round.
        if role == "dies" and mine >= 3 * H - 1:
            end_when_begun(trainer)
        if role == "leaves" and mine >= 3 * H + 3:
            return
        if role == "flaps" and mine >= 3 * H + 3:
            print("STOPS", flush=True)
            os.kill(os.getpid(), signal.SIGSTOP)
            role = "stays"
        try:
            local_step(trainer, net, group.rank, trainer.steps)
        except holdfast.PeerLost:
            # With on_peer_loss="raise": after the same row on all survivors.
            print("LOST", trainer.steps, zlib.crc32(bits(trainer)), flush=True)
            trainer.advance({"life": life.seen}, each_round=True)
        if trainer.view is not view:
            view = trainer.view
            life.at(view)
            if view_joined(trainer):
                _tell_inner(trainer)
        if trainer.at_boundary:
            _tell(trainer, trainer.steps - first)
            time.sleep(ROUND_S)
    trainer.finish()
    found = {
        "bits": zlib.crc32(bits(trainer)),
        "model": zlib.crc32(flat(net).numpy().tobytes()),
        "steps": trainer.steps,
        "seen": life.seen.tolist(),
        "members": sorted(trainer.last.weights) if trainer.last else [],
    }
    print("END", json.dumps(found), flush=True)


def view_joined(trainer: ft.Trainer) -> bool:
    return trainer.view is not None and bool(trainer.view.joined)


def _tell_inner(trainer: ft.Trainer) -> None:
    """Say what the inner optimiser has, as it was at the boundary."""
    state = trainer.inner.state_dict()["state"]
    tensors = [value for one in state.values() for value in one.values()]
    flat = torch.cat([tensor.reshape(-1) for tensor in tensors]) if tensors else torch.zeros(0)
    print("INNER", flat.numel(), zlib.crc32(flat.numpy().tobytes()), flush=True)


def _tell(trainer: ft.Trainer, mine: int) -> None:
    weights = trainer.last.weights if trainer.last else {}
    print("ROUND", trainer.steps, zlib.crc32(bits(trainer)), sum(weights.values()), flush=True)
    if mine == 2 * H:
        print("READY", flush=True)
