"""FSDP2 loses a rank, or its keeper too, and goes on from memory within the same processes.

    holdfast run -n 3 --respawn examples/snapshots.py --kill 1
    holdfast run -n 3 --respawn examples/snapshots.py --kill 1 --with-keeper

Each rank has a third of the parameters and of Adam's state, which nobody else has. After every step
its keeper, a small process beside it, has a copy, and the keepers guard each other's by a code. The
rank that is killed is started again; the others never end. Each step's loss is that of a run
without a kill, bit by bit: the program trains twice and compares.
"""

from __future__ import annotations

import argparse
import os
import signal
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

import holdfast

STEPS = 12


def build(rank: int) -> dict[str, object]:
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(16, 48), nn.GELU(), nn.Linear(48, 1))
    for layer in (net[0], net[2], net):
        fully_shard(layer)
    torch.manual_seed(rank)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    return {"model": net, "optim": optimizer, "rng": holdfast.ft.rng()}


@holdfast.ft.restartable
def train(restart: holdfast.ft.Restart, run: str, options: argparse.Namespace) -> list[float]:
    """Train from wherever the keepers are; returns the losses of the steps of this call."""
    rank, losses = dist.get_rank(), []
    state, code = build(rank), (dist.get_world_size() - 1, 1)
    with holdfast.ft.Snapshots(state, code=code, job=f"{options.meeting}.{run}") as snapshots:
        if restart.number:
            print(f"rank {rank}: goes on after step {snapshots.step}; {restart.reason[:60]}...")
        for step in snapshots.steps(STEPS):
            mark = Path(f"{options.meeting}.{run}")
            is_due = run == "killed" and step == STEPS // 2 and rank == options.kill
            if is_due and not mark.exists():
                mark.touch()
                if options.with_keeper:
                    os.kill(snapshots.keeper, signal.SIGKILL)
                os.kill(os.getpid(), signal.SIGKILL)
            state["optim"].zero_grad()
            loss = state["model"](torch.randn(8, 16)).square().mean()
            loss.backward()
            state["optim"].step()
            losses.append(loss.item())
    return losses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kill", type=int, default=-1, help="the rank that dies")
    parser.add_argument("--with-keeper", action="store_true", help="as if its host were lost")
    options = parser.parse_args()
    options.meeting = f"snapshots-example-{os.getppid()}"
    rank = int(os.environ["RANK"])
    # As if each rank had a host of its own: a code takes its parts from different ones.
    os.environ["HOLDFAST_DOMAIN"] = f"host{rank}"
    dist.init_process_group("holdfast")
    killed = train("killed", options)
    whole = train("whole", options)
    assert killed == whole[-len(killed) :], (killed, whole)
    dist.barrier()
    if rank == 0:
        print(f"{len(killed)} steps since the kill, {STEPS} in all; the same losses, bit by bit")
        Path(f"{options.meeting}.killed").unlink(missing_ok=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
