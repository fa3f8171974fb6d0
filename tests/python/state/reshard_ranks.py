"""Ranks of test_reshard.py: a training that goes on in another number of ranks than it had."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from owed_ranks import residuals_of
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch_world import join

from holdfast import compress
from holdfast.ft.data.sampler import DataLedger
from holdfast.ft.state.keeper.wire import Message
from holdfast.ft.state.layout.rng import rng
from holdfast.ft.state.restart import Restart, restartable
from holdfast.ft.state.snapshots import Snapshots

SAMPLES, BATCH = 96, 4


class Ended(Exception):
    """As a job that is ended from outside."""


def build(group: dist.ProcessGroup) -> dict[str, Any]:
    torch.manual_seed(7)
    net = nn.Sequential(nn.Linear(32, 97), nn.GELU(), nn.Linear(97, 331), nn.Linear(331, 4))
    mesh = DeviceMesh.from_group(group, "cpu")
    for layer in (net[0], net[2], net[3], net):
        fully_shard(layer, mesh=mesh)
    return {"model": net, "optim": torch.optim.AdamW(net.parameters(), 1e-2), "rng": rng()}


def train_step(state: dict[str, Any], inputs: torch.Tensor) -> None:
    state["optim"].zero_grad()
    state["model"](inputs).square().mean().backward()
    state["optim"].step()


def whole(state: dict[str, Any]) -> str:
    """Of the whole state, whatever ranks there are; collective."""
    found = hashlib.sha256()
    for parameter in state["model"].parameters():
        kept = state["optim"].state.get(parameter, {})
        for tensor in (parameter, *(kept[name] for name in ("exp_avg", "exp_avg_sq") if kept)):
            found.update(tensor.detach().full_tensor().numpy().tobytes())
    return found.hexdigest()[:16]


def lose(what: str, snapshots: Snapshots) -> None:
    """End this process, its keeper, or both (``host``)."""
    if what == "host":
        os.kill(snapshots.keeper, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def wait_for_parity(snapshots: Snapshots) -> None:
    """Wait until all keepers have the parity of what was restored, before anything is taken."""
    link = snapshots._link
    assert link is not None
    until = time.monotonic() + 60
    while True:
        link.send(Message("status"))
        found = link.wait("status", 60).fields["snapshots"]
        if all(one["parity"] for one in found if one["committed"]):
            break
        assert time.monotonic() < until, found
        time.sleep(0.01)
    dist.barrier()


def lives() -> None:
    """One life: goes on from what is there, does some steps, and ends as LOST and LAST say."""
    rank, _ = join()
    os.environ["HOLDFAST_DOMAIN"] = f"domain{rank}"
    lost, last = os.environ.get("LOST", ""), bool(os.environ.get("LAST"))
    code = tuple(int(each) for each in os.environ["CODE"].split("+"))
    state = build(dist.group.WORLD)
    try:
        with Snapshots(state, code=(code[0], code[1]), patience=60.0) as snapshots:
            print("BEGINS", snapshots.step, whole(state), snapshots.keeper, flush=True)
            begun = snapshots.step
            end = begun + 3
            if os.environ.get("REBUILT"):
                wait_for_parity(snapshots)
                end = begun
            for step in snapshots.steps(begun + 4):
                if step == end and not last:
                    if lost == str(rank):
                        lose("host", snapshots)
                    if not lost:
                        raise Ended
                generator = torch.Generator().manual_seed(100 * step + rank)
                train_step(state, torch.randn(8, 32, generator=generator))
                print("STEP", step + 1, whole(state), flush=True)
            print("ENDS", snapshots.unprotected or "protected", flush=True)
            dist.barrier()
    except Ended:
        dist.barrier()
    dist.destroy_process_group()


def shrinks() -> None:
    """Rank 2 is lost at step 4 and does not come back: the others go on in the same processes."""
    join()
    os.environ["HOLDFAST_DOMAIN"] = f"domain{os.environ['RANK']}"
    _train_epoch()


@restartable(rejoin_timeout=0.5)
def _train_epoch(restart: Restart) -> None:
    group = dist.new_group(list(restart.ranks))
    place, members = restart.ranks.index(dist.get_rank()), range(len(restart.ranks))
    ledger = DataLedger(SAMPLES, 2 * BATCH, seed=3)
    ledger.seat(place)
    state = build(group)
    small = nn.Linear(31, 7)
    state |= {"data": ledger, "small": small}
    state["signs"] = compress.OneBitAdam(
        small.parameters(), 1e-3, freeze_step=1, block=64, group=group
    )
    with Snapshots(state, code=(3, 1), patience=60.0) as snapshots:
        owed = residuals_of({"optim": state["signs"]})
        print("BEGINS", snapshots.step, whole(state), owed, flush=True)
        turn = snapshots.step
        ledger.boundary(turn, members)
        indices = iter(ledger)
        while not ledger.is_over:
            if turn == 4 and dist.get_rank() == 2:
                lose(os.environ["LOST"], snapshots)
            mine = [index for index, _ in zip(indices, range(BATCH), strict=False)]
            counts: list[Any] = [None] * len(members)
            generator = torch.Generator().manual_seed(turn)
            train_step(state, torch.randn(8, 32, generator=generator))
            small(torch.randn(8, 31, generator=generator)).square().mean().backward()
            state["signs"].step()
            dist.all_gather_object(counts, len(mine), group=group)
            ledger.done(len(mine))
            ledger.arrived(0, dict(enumerate(counts)))
            turn += 1
            ledger.boundary(turn, members)
            indices = iter(ledger)
            owed = residuals_of({"optim": state["signs"]})
            print("STEP", turn, whole(state), owed, flush=True)
            print("DID", turn, *mine, flush=True)
            snapshots.take(turn)
        snapshots.take(turn + 1)
        print("ENDS", snapshots.unprotected or "protected", restart.number, flush=True)
    dist.barrier()
    dist.destroy_process_group()


def replicates() -> None:
    """DDP, or HSDP as 2 x 2: KILLS names what is lost where, ``trainer:2:5 host:1:7``."""
    join()
    os.environ["HOLDFAST_DOMAIN"] = f"domain{os.environ['RANK']}"
    _train_replicas()


class Counting(nn.Module):
    """Has a buffer that forward changes, alike on all ranks."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(3))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return inputs + 1e-3 * self.calls[0]


def build_replicas() -> dict[str, Any]:
    torch.manual_seed(7)
    layers = [nn.Linear(32, 97), nn.Dropout(0.2), nn.Linear(97, 331), nn.Linear(331, 4)]
    if os.environ["SPREAD"] == "hsdp":
        net: nn.Module = nn.Sequential(*layers)
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicas", "shards"))
        for layer in (layers[0], layers[2], layers[3], net):
            fully_shard(layer, mesh=mesh)
    else:
        layers.insert(1, Counting())
        net = nn.parallel.DistributedDataParallel(nn.Sequential(*layers))
        # It makes its buckets anew after a step, and the order of sums goes by them.
        net(torch.zeros(8, 32)).sum().backward()
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    torch.manual_seed(100 + dist.get_rank())
    return {"model": net, "optim": optimizer, "rng": rng()}


@restartable(rejoin_timeout=60.0)
def _train_replicas(restart: Restart) -> None:
    state, rank = build_replicas(), dist.get_rank()
    with Snapshots(state, code=(3, 1), patience=60.0) as snapshots:
        print("BEGINS", snapshots.step, restart.number, flush=True)
        for step in snapshots.steps(9):
            for kill in os.environ.get("KILLS", "").split():
                what, *place = kill.split(":")
                mark = Path(os.environ["MEETING_FILE"]).parent / kill
                if place == [str(rank), str(step)] and not mark.exists():
                    mark.touch()
                    lose(what, snapshots)
            generator = torch.Generator().manual_seed(100 * step + rank)
            train_step(state, torch.randn(8, 32, generator=generator))
            found = hashlib.sha256()
            for value in (*state["model"].state_dict().values(), torch.get_rng_state()):
                local = getattr(value, "_local_tensor", value)
                found.update(local.detach().numpy().tobytes())
            print("STEP", rank, step, found.hexdigest()[:16], flush=True)
        print("ENDS", snapshots.unprotected or "protected", flush=True)
    dist.barrier()
    dist.destroy_process_group()
