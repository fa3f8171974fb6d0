"""Ranks of test_reshard.py: a training that goes on in another number of ranks than it had."""

from __future__ import annotations

import hashlib
import os
import signal
from typing import Any

import torch
import torch.distributed as dist
from owed_ranks import residuals_of
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch_world import join

from holdfast import compress
from holdfast.ft.data.sampler import DataLedger
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
            for step in snapshots.steps(begun + 4):
                if step == begun + 3 and not last:
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
    with Snapshots(state, code=(2, 1), patience=60.0) as snapshots:
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
