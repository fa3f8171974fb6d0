"""Ranks of test_snapshots.py: training with AdamW, a schedule and a loader, and snapshots of it."""

from __future__ import annotations

import hashlib
import os
import signal
import threading
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

from holdfast import compress
from holdfast.ft.state.keeper import link as link_module
from holdfast.ft.state.keeper.link import KeeperLink
from holdfast.ft.state.keeper.wire import Message
from holdfast.ft.state.layout.rng import rng
from holdfast.ft.state.restart import Restart, restartable
from holdfast.ft.state.snapshots import Snapshots

STEPS, WIDTH = int(os.environ.get("STEPS", "12")), 96


class Loader:
    """Draws batches by its place; a state of its own."""

    def __init__(self, rank: int) -> None:
        self._rank, self.place = rank, 0

    def next(self) -> torch.Tensor:
        self.place += 1
        generator = torch.Generator().manual_seed(1000 * self._rank + self.place)
        return torch.randn(8, 32, generator=generator)

    def state_dict(self) -> dict[str, Any]:
        return {"place": self.place}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.place = state["place"]


def build(rank: int) -> dict[str, Any]:
    torch.manual_seed(7)
    net = nn.Sequential(
        nn.Linear(32, WIDTH),
        nn.GELU(),
        nn.Linear(WIDTH, WIDTH + 1),
        nn.GELU(),
        nn.Linear(WIDTH + 1, 4),
    )
    if os.environ.get("SPREAD") == "fsdp":
        for layer in net:
            if isinstance(layer, nn.Linear):
                fully_shard(layer)
        fully_shard(net)
    optimizer: Any = torch.optim.AdamW(net.parameters(), 1e-2)
    if os.environ.get("SPREAD") == "onebit":
        optimizer = compress.OneBitAdam(net.parameters(), 1e-3, freeze_step=2, block=64)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    torch.manual_seed(100 + rank)
    loader = Loader(rank)
    return {"model": net, "optim": optimizer, "schedule": schedule, "data": loader, "rng": rng()}


def train_step(state: dict[str, Any]) -> str:
    """Do a step; return what it came to, bit by bit."""
    net = state["model"]
    state["optim"].zero_grad()
    noise = torch.randn(8, 1)
    loss = (net(state["data"].next()) + 0.01 * noise).square().mean()
    loss.backward()
    if os.environ.get("SPREAD", "") == "":
        for parameter in net.parameters():
            dist.all_reduce(parameter.grad)
    state["optim"].step()
    state["schedule"].step()
    return loss.detach().double().item().hex()


def digest(state: dict[str, Any]) -> str:
    """Of this rank's parameters, optimiser's state and residuals."""
    found = hashlib.sha256()
    for parameter in state["model"].parameters():
        kept = state["optim"].state[parameter]
        for tensor in (parameter, kept["exp_avg"], kept["exp_avg_sq"]):
            local = getattr(tensor, "_local_tensor", tensor).detach()
            found.update(local.contiguous().numpy().tobytes())
    if hasattr(state["optim"], "residuals"):
        for _, tensor in sorted(state["optim"].residuals.state_dict()["kept"].items()):
            found.update(tensor.numpy().tobytes())
    return found.hexdigest()[:16]


def code() -> tuple[int, int] | None:
    """CODE, as ``3+1``."""
    k, plus, m = os.environ.get("CODE", "").partition("+")
    return (int(k), int(m)) if plus else None


def flushes() -> dict[str, Any]:
    """FLUSH, a folder, which may be each rank's own, and EVERY, steps."""
    found = {"flush": os.environ.get("FLUSH", "").format(rank=os.environ["RANK"])}
    return {**found, "flush_every": int(os.environ.get("EVERY", "0"))}


def trains() -> None:
    """Train to the end, with the losses that KILLS says, each of which happens once."""
    torch.set_num_threads(1)
    os.environ["HOLDFAST_DOMAIN"] = f"domain{os.environ['RANK']}"
    dist.init_process_group(os.environ.get("BACKEND", "holdfast"))
    rank = dist.get_rank()
    state = build(rank)
    with Snapshots(state, code=code(), patience=60.0, **flushes()) as snapshots:
        print("BEGINS", snapshots.step, flush=True)
        for step in snapshots.steps(STEPS):
            die_if_due(rank, step, snapshots)
            loss = train_step(state)
            print("STEP", step, loss, digest(state), flush=True)
        if "keeper" in os.environ.get("KILLS", ""):
            until_protected(snapshots)
        print("ENDS", snapshots.unprotected or "protected", flush=True)
        dist.barrier()
    dist.destroy_process_group()


def until_protected(snapshots: Snapshots) -> None:
    """Take more snapshots: the steps may all be done before another keeper has come."""
    for step in range(STEPS + 1, STEPS + 500):
        is_open = torch.tensor([float(bool(snapshots.unprotected))])
        dist.all_reduce(is_open, dist.ReduceOp.MAX)
        if not is_open.item():
            return
        threading.Event().wait(0.02)
        snapshots.take(step)


def restarts() -> None:
    """As `trains`, but who has lost a peer goes on in its own process."""
    link_module.KeeperLink = Doomed
    torch.set_num_threads(1)
    os.environ["HOLDFAST_DOMAIN"] = f"domain{os.environ['RANK']}"
    dist.init_process_group("holdfast")
    print("PARENT", dist.get_rank(), os.getppid(), os.getpid(), flush=True)
    job()
    dist.barrier()
    dist.destroy_process_group()


class Doomed(KeeperLink):
    """Sends ``meet``, and what AFTER says is lost: ``trainer:2:keeper-1-4`` or ``keeper:2:...``.

    Rank 2's, once, in the first meeting after that kill.
    """

    def send(self, message: Message, within_s: float = 1.0) -> None:
        super().send(message, within_s)
        for kill in os.environ.get("AFTER", "").split() if message.kind == "meet" else ():
            what, rank, mark = kill.split(":")
            own, marks = f"{what}-{rank}-after-{mark}", Path(os.environ["MARKS"])
            if (
                rank == os.environ["RANK"]
                and (marks / mark).exists()
                and not (marks / own).exists()
            ):
                (marks / own).touch()
                os.kill(self.process if what == "keeper" else os.getpid(), signal.SIGKILL)


@restartable
def job(restart: Restart) -> None:
    rank = dist.get_rank()
    state = build(rank)
    with Snapshots(state, code=code(), patience=60.0, **flushes()) as snapshots:
        print("BEGINS", restart.number, snapshots.step, flush=True)
        for step in snapshots.steps(STEPS):
            die_if_due(rank, step, snapshots)
            loss = train_step(state)
            print("STEP", step, loss, digest(state), flush=True)


def die_if_due(rank: int, step: int, snapshots: Snapshots) -> None:
    """Do what KILLS says: ``trainer:2:7``, ``keeper``, ``host``, ``node`` or ``stop``, rank, step.

    A node is a host with whoever has started the trainer; who stops waits for SIGCONT.
    """
    for kill in os.environ.get("KILLS", "").split():
        what, *place = kill.split(":")
        mark = Path(os.environ["MARKS"]) / kill.replace(":", "-")
        if place != [str(rank), str(step)] or mark.exists():
            continue
        mark.touch()
        if what == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        if what == "node":
            os.kill(os.getppid(), signal.SIGKILL)
        if what in ("keeper", "host", "node"):
            os.kill(snapshots.keeper, signal.SIGKILL)
        if what in ("trainer", "host", "node"):
            os.kill(os.getpid(), signal.SIGKILL)
