"""Ranks that train in rounds, over gloo and over Holdfast, and ranks that die while they do."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
import zlib

import torch
import torch.distributed as dist
from methods import METHODS, H, batch, bits, local_step, model
from torch import nn
from torch_world import expect, join

import holdfast
from holdfast import ft
from holdfast.ft.outer import mean

# Rounds after which a rank that does not come back is missed.
MOST_ROUNDS = 300


def leave() -> None:
    backend = dist.get_backend()
    dist.destroy_process_group()
    if backend == "gloo":
        # Its threads let go of tensors while the interpreter ends, which aborts one run in ten.
        os._exit(0)


def flat(net: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().reshape(-1) for p in net.parameters()])


def plain_diloco(net: nn.Module, rank: int, rounds: int, size: int) -> torch.Tensor:
    """DiLoCo as one would write it: torch's optimisers and an all_reduce."""
    outer = [nn.Parameter(p.detach().clone()) for p in net.parameters()]
    outer_optimizer = torch.optim.SGD(outer, 0.7, momentum=0.5, nesterov=True)
    inner = torch.optim.AdamW(net.parameters(), 3e-3)
    for step in range(rounds * H):
        x, y = batch(rank, step, torch.float64)
        inner.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        inner.step()
        if (step + 1) % H:
            continue
        with torch.no_grad():
            for shared, p in zip(outer, net.parameters(), strict=True):
                shared.grad = shared - p
                dist.all_reduce(shared.grad)
                shared.grad /= size
        outer_optimizer.step()
        with torch.no_grad():
            for shared, p in zip(outer, net.parameters(), strict=True):
                p.copy_(shared)
    return flat(net)


def parity() -> None:
    """Three rounds of DiLoCo in float64 against the plain script."""
    rank, size = join(os.environ["BACKEND"])
    theirs = plain_diloco(model(torch.float64), rank, 3, size)
    net = model(torch.float64)
    trainer = ft.DiLoCo(net, torch.optim.AdamW(net.parameters(), 3e-3), inner_steps=H)
    for step in range(3 * H):
        local_step(trainer, net, rank, step)
    error = float((flat(net) - theirs).abs().max())
    moved = float((theirs - flat(model(torch.float64))).abs().max())
    assert moved > 1e-3
    assert error <= 1e-12, error
    leave()


KINDS = ("diloco", "streaming, 3, 3", "eager, 2, 4", "co2", "sparse")


def methods() -> None:
    """Methods, plain and coded, over BACKEND; a digest of what is shared after each step."""
    rank, size = join(os.environ["BACKEND"])
    found: dict[str, list[int]] = {}
    for kind in KINDS:
        net = model()
        trainer = METHODS[kind](net, torch.optim.AdamW(net.parameters(), 3e-3), None)
        found[kind] = _trail(trainer, net, rank)
        assert trainer.last is not None
        assert sorted(trainer.last.weights) == list(range(size))
        # Steps of 16 samples; whatever the option `codec` encodes, weights are exact.
        (samples,) = set(trainer.last.weights.values())
        assert samples % 16 == 0
    for codec in ("int4", "int8", "bf16"):
        net = model()
        trainer = ft.StreamingDiLoCo(
            net,
            torch.optim.AdamW(net.parameters(), 3e-3),
            dist.group.WORLD,
            inner_steps=H,
            delay=2,
            codec=codec,
        )
        found[codec] = _trail(trainer, net, rank)
    net = model(torch.float64)
    inner = torch.optim.AdamW(net.parameters(), 3e-3)
    found["float64"] = _trail(ft.DiLoCo(net, inner, inner_steps=H, codec="int8"), net, rank)
    print("FOUND", json.dumps(found), flush=True)
    leave()


def _trail(trainer: ft.Trainer, net: nn.Module, rank: int) -> list[int]:
    trail = []
    for step in range(5 * H):
        local_step(trainer, net, rank, step)
        trail.append(zlib.crc32(bits(trainer)))
    trainer.finish()
    assert zlib.crc32(flat(net).numpy().tobytes()) == zlib.crc32(bits(trainer))
    return trail


def over_a_group() -> None:
    """Over a holdfast.Group, without torch.distributed."""
    torch.set_num_threads(1)
    group = holdfast.init()
    found: dict[str, list[int]] = {}
    for kind in KINDS:
        net = model()
        trainer = METHODS[kind](net, torch.optim.AdamW(net.parameters(), 3e-3), group)
        assert trainer.advance().ranks == tuple(range(group.size))
        found[kind] = _trail(trainer, net, group.rank)
    net = model()
    inner = torch.optim.AdamW(net.parameters(), 3e-3)
    trainer = ft.DiLoCo(net, inner, group, inner_steps=H, codec=holdfast.Codec("int8", block=32))
    found["int8"] = _trail(trainer, net, group.rank)
    print("FOUND", json.dumps(found), flush=True)
    group.close()


def other_models() -> None:
    """Every rank is told which rank's model differs."""
    rank, _ = join(os.environ["BACKEND"])
    net = model()
    if rank == 2:
        nn.init.ones_(net[0].bias)
    trainer = ft.DiLoCo(net, torch.optim.SGD(net.parameters(), 0.1))
    expect(ValueError, "parameter values of rank 2 differs", lambda: local_step(trainer, net, 0, 0))
    leave()


def churn() -> None:
    """Rank 1 dies in mid-round, unless it has come back (AGAIN); METHOD trains."""
    rank, _ = join("holdfast")
    net = model()
    trainer = METHODS[os.environ["METHOD"]](net, torch.optim.AdamW(net.parameters(), 3e-3), None)
    _live(trainer, net, rank, came_back="AGAIN" in os.environ)
    dist.destroy_process_group()


def other_comes() -> None:
    """As `churn`, but who comes back has other rounds: it is refused, and the others go on."""
    rank, _ = join("holdfast")
    net = model()
    inner = torch.optim.AdamW(net.parameters(), 3e-3)
    if "AGAIN" in os.environ:
        trainer: ft.Trainer = ft.DiLoCo(net, inner, inner_steps=2 * H)
        seen = torch.zeros(1, dtype=torch.int64)
        expect(ValueError, f"inner_steps={2 * H}", lambda: trainer.advance({"seen": seen}))
        os.kill(os.getpid(), signal.SIGKILL)
    _live(ft.DiLoCo(net, inner, inner_steps=H), net, rank, came_back=False)
    dist.destroy_process_group()


def group_churn() -> None:
    """The same over a holdfast.Group."""
    torch.set_num_threads(1)
    with holdfast.init() as group:
        net = model()
        inner = torch.optim.AdamW(net.parameters(), 3e-3)
        trainer = METHODS[os.environ["METHOD"]](net, inner, group)
        _live(trainer, net, group.rank, came_back="AGAIN" in os.environ)


def end_when_begun(trainer: ft.Trainer) -> None:
    """Die when the next exchange has been begun, and nothing of it has been waited for."""
    begin = trainer._begin_mean

    def last(*arguments: object) -> object:
        begin(*arguments)  # type: ignore[arg-type]
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("a dead rank goes on")

    trainer._begin_mean = last  # type: ignore[method-assign,assignment]


def _live(trainer: ft.Trainer, net: nn.Module, rank: int, came_back: bool) -> None:
    """Train until three rounds after the dead one is back."""
    seen = torch.zeros(1, dtype=torch.int64)
    each_round = "EACH_ROUND" in os.environ
    end = MOST_ROUNDS * H
    known = trainer.advance({"seen": seen}, each_round=each_round)
    joined, passed = bool(known.joined), trainer.steps
    if "donor" in os.environ.get("METHOD", ""):
        assert bool(trainer.inner.state) == came_back
    while trainer.steps < end:
        # In the middle of rounds, too, where something is in flight.
        if trainer.steps % H in (0, 2) and not each_round and trainer.steps != passed:
            known = trainer.advance({"seen": seen})
            joined = bool(known.joined) or joined
        end = trainer.steps + 3 * H if joined else end
        joined = False
        dies = rank == 1 and not came_back and trainer.steps == 2 * H + 1
        if dies and os.environ["AFTER_S"] == "begun":
            end_when_begun(trainer)
        elif dies:
            delay = float(os.environ["AFTER_S"])
            threading.Timer(delay, os.kill, (os.getpid(), signal.SIGKILL)).start()
        seen += 1
        try:
            local_step(trainer, net, rank, trainer.steps)
        except holdfast.PeerLost:
            # With on_peer_loss="raise": at the same step on all survivors.
            known = trainer.advance({"seen": seen})
            joined = bool(known.joined)
        # What a boundary inside the step has said.
        joined = joined or (trainer.view != known and bool(trainer.view.joined))
        known = trainer.view
        print(f"STEP {trainer.steps} {zlib.crc32(bits(trainer))}", flush=True)
        time.sleep(0.01)
    trainer.finish()
    assert trainer.last is not None
    found = {
        "bits": zlib.crc32(bits(trainer)),
        "model": zlib.crc32(flat(net).numpy().tobytes()),
        "steps": trainer.steps,
        "seen": int(seen),
        "members": sorted(trainer.last.weights),
    }
    print("END", json.dumps(found), flush=True)


def recorded() -> None:
    """Ranks die at random instants of an exchange; each writes what it sends before it does."""
    rank, _ = join("holdfast")
    net = model()
    trainer = ft.DiLoCo(
        net, torch.optim.AdamW(net.parameters(), 3e-3), inner_steps=H, outer=ft.OuterSGD(0.5)
    )
    chance = random.Random(int(os.environ["SEED"]))
    deaths = {1: (2, chance.random()), 3: (4, chance.random())}
    begin, began = trainer._begin_mean, []

    def note(fragment: int, sent: torch.Tensor, share: mean.Share) -> mean.MeanUnderWay:
        torch.save(sent.clone(), f"sent-{rank}-{trainer.steps}")
        began.append(trainer.steps)
        if rank in deaths and len(began) == deaths[rank][0]:
            within = deaths[rank][1] * 0.003
            threading.Timer(within, os.kill, (os.getpid(), signal.SIGKILL)).start()
        return begin(fragment, sent, share)

    trainer._begin_mean = note  # type: ignore[method-assign]
    while trainer.steps < 6 * H:
        local_step(trainer, net, rank, trainer.steps)
        if trainer.at_boundary:
            assert trainer.last is not None
            torch.save(
                {"shared": trainer.shared["outer/0"].clone(), "weights": trainer.last.weights},
                f"step-{rank}-{trainer.steps}",
            )
    dist.destroy_process_group()


def elastic() -> None:
    """Peers of an elastic group: one comes in when the others are under way, one leaves."""
    torch.set_num_threads(1)
    kind, late, leaver = os.environ["METHOD"], "LATE" in os.environ, "LEAVES" in os.environ
    with holdfast.join(os.environ["URL"], min_peers=2) as group:
        net = model()
        trainer = METHODS[kind](net, torch.optim.AdamW(net.parameters(), 3e-3), group)
        crowd = 0
        while crowd < 10:
            if trainer.steps % H in (0, 4):
                view = trainer.advance()
                # Steps with three members, of whom the late one is one.
                crowd += len(view.ranks) == 3
                if not late and not crowd and trainer.steps == 2 * H:
                    print("ready", flush=True)
                if leaver and crowd == 5:
                    return
                if crowd and len(view.ranks) == 2:
                    break
            local_step(trainer, net, group.rank, trainer.steps)
            time.sleep(0.005)
        trainer.finish()
        assert zlib.crc32(flat(net).numpy().tobytes()) == zlib.crc32(bits(trainer))
        members = sorted(trainer.last.weights) if trainer.last else []
        end = {"bits": zlib.crc32(bits(trainer)), "steps": trainer.steps, "members": members}
        print("END", json.dumps(end), flush=True)
