"""The ranks of snapshot_kills.py: they train until the bench says that it is enough."""

from __future__ import annotations

import faulthandler
import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from trap import Trap

from holdfast import compress
from holdfast.ft.state.keeper import starting
from holdfast.ft.state.layout.flatten import flatten
from holdfast.ft.state.layout.rng import rng
from holdfast.ft.state.restart import Restart, restartable
from holdfast.ft.state.snapshots import Snapshots

FOLDER, RANK = Path(os.environ["KILLS_AT"]), int(os.environ["RANK"])
KIND, WIDTH = os.environ["KIND"], int(os.environ["WIDTH"])
STEPS, PACE_S = int(os.environ["STEPS"]), float(os.environ["PACE"])
TRAP = Trap(FOLDER, "trainer", RANK)


class _Processes:
    """`subprocess`, by which keepers are started: with traps, and a log."""

    DEVNULL = subprocess.DEVNULL

    @staticmethod
    def Popen(command: list[str], **named: Any) -> subprocess.Popen[bytes]:  # noqa: N802
        at = command.index("-m")
        trapped = str(Path(__file__).parent / "kill_keeper.py")
        with (FOLDER / f"keeper-{RANK}.log").open("a") as log:
            return subprocess.Popen(
                [*command[:at], trapped, *command[at + 2 :]], **{**named, "stderr": log}
            )


class Loader:
    """Draws batches by its place; a state of its own."""

    def __init__(self) -> None:
        self.place = 0

    def next(self) -> torch.Tensor:
        self.place += 1
        generator = torch.Generator().manual_seed(100_000 * RANK + self.place)
        return torch.randn(8, 32, generator=generator)

    def state_dict(self) -> dict[str, Any]:
        return {"place": self.place}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.place = state["place"]


def build() -> dict[str, Any]:
    """Return everything that there is to save."""
    torch.manual_seed(7)
    net: nn.Module = nn.Sequential(
        nn.Linear(32, WIDTH),
        nn.GELU(),
        nn.Linear(WIDTH, WIDTH + 1),
        nn.GELU(),
        nn.Linear(WIDTH + 1, 4),
    )
    state: dict[str, Any] = {"data": Loader(), "rng": rng()}
    if KIND == "fsdp":
        from torch.distributed.fsdp import fully_shard

        for layer in net.children():
            if isinstance(layer, nn.Linear):
                fully_shard(layer)
        fully_shard(net)
    if KIND in ("ddp", "powersgd"):
        net = nn.parallel.DistributedDataParallel(net, find_unused_parameters=True)
    if KIND == "powersgd":
        state["reducer"] = compress.PowerSGD(2)
        compress.register(net, state["reducer"])
    if KIND == "onebit":
        optimizer: Any = compress.OneBitAdam(net.parameters(), 1e-3, freeze_step=5)
    elif KIND == "powersgd":
        optimizer = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
    else:
        optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    torch.manual_seed(100 + RANK)
    return {**state, "model": net, "optim": optimizer, "schedule": schedule}


def train_step(state: dict[str, Any]) -> str:
    """Do a step; return its loss, bit by bit."""
    state["optim"].zero_grad()
    noise = torch.randn(8, 1)
    loss = (state["model"](state["data"].next()) + 0.01 * noise).square().mean()
    TRAP.at("step", "after forward")
    loss.backward()
    TRAP.at("step", "after backward")
    state["optim"].step()
    TRAP.at("step", "after the optimizer's step")
    state["schedule"].step()
    return float(loss.detach().double().item()).hex()


def digest(state: dict[str, Any]) -> str:
    """Of all tensors of this rank's state: shards, moments, residuals."""
    found = hashlib.sha256()
    for name, tensor in sorted(flatten(state).tensors.items()):
        if not name.startswith("rng"):
            local = getattr(tensor, "_local_tensor", tensor).detach()
            found.update(local.reshape(-1).view(torch.uint8).numpy().data)
    holder = state.get("reducer", state["optim"])
    if hasattr(holder, "residuals"):
        for _, tensor in sorted(holder.residuals.state_dict()["kept"].items()):
            found.update(tensor.detach().reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()[:16]


def is_enough() -> bool:
    """Whether the bench has said so; the same on all ranks."""
    said = torch.tensor([float((FOLDER / "enough").exists())])
    dist.all_reduce(said, dist.ReduceOp.MAX)
    return bool(said.item())


def show(step: int, loss: str, state: dict[str, Any], why: str) -> None:
    print(
        "STEP",
        step,
        loss,
        digest(state),
        why.replace(" ", "_") or "protected",
        flush=True,
    )


def plain() -> None:
    """Train without snapshots: what the others are compared with."""
    state = build()
    for step in range(STEPS):
        show(step, train_step(state), state, "")


@restartable
def job(restart: Restart) -> None:
    TRAP.at("restore", "before the state is built")
    state = build()
    k, _, m = os.environ["CODE"].partition("+")
    code = (int(k), int(m)) if m else None
    flush = {"flush": f"file://{FOLDER}/states", "flush_every": int(os.environ["EVERY"])}
    with Snapshots(state, code=code, patience=60.0, **flush) as snapshots:
        print("BEGINS", restart.number, snapshots.step, flush=True)
        for step in snapshots.steps(STEPS):
            if is_enough():
                break
            show(step, train_step(state), state, snapshots.unprotected)
            time.sleep(PACE_S)
    print("ENDS", flush=True)


def main() -> None:
    # A file of its own: what several processes append to one is not whole on every file system.
    with (FOLDER / f"output-{RANK}").open("ab") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    starting.subprocess = _Processes
    TRAP.sign()
    torch.set_num_threads(1)
    os.environ["HOLDFAST_DOMAIN"] = f"domain{RANK}"
    dist.init_process_group("holdfast")
    if os.environ["CODE"] == "plain":
        plain()
    else:
        job()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
