"""FSDP2 loses a rank: PeerLost on all survivors, a checkpoint is loaded, training goes on.

    holdfast run -n 3 --respawn examples/fsdp2_kill.py --kill 1
    holdfast run -n 3 --grace 60 examples/fsdp2_kill.py --kill 1 --shrink

Parameters are sharded, so what the lost rank had is nowhere else: the step ends with PeerLost on
every survivor. They wait until the launcher has started the rank again, or with --shrink shard the
model over themselves (the launcher's status is then the killed rank's), and load a distributed
checkpoint. Batches are split over whoever is there, so the loss at the end must be that of a single
process, which is trained as well.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

import holdfast

BATCH = 24  # divides by 1, 2, 3 and 4
EVERY = 5  # steps from one checkpoint to the next
FOLDER = Path("checkpoints")  # all ranks see it
TOLERANCE = 1e-4


def make(shard_over: dist.ProcessGroup | None) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Make model and optimiser, sharded over a process group if one is given."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 64), nn.Linear(64, 1))
    if shard_over is not None:
        mesh = DeviceMesh.from_group(shard_over, "cpu")
        for part in (*model, model):
            fully_shard(part, mesh=mesh)
    return model, torch.optim.Adam(model.parameters(), lr=3e-3)


def loss_of(model: nn.Module, step: int, place: int = 0, places: int = 1) -> torch.Tensor:
    """Mean loss of one of the equal parts of the step's batch."""
    x = torch.randn(BATCH, 16, generator=torch.Generator().manual_seed(step))
    y = x.sin().sum(1, keepdim=True)
    part = slice(place * BATCH // places, (place + 1) * BATCH // places)
    return nn.functional.mse_loss(model(x[part]), y[part])


def update(model: nn.Module, optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def save(step: int, epoch: int, group: dist.ProcessGroup, *of: object) -> None:
    """Save in a folder of its own; of two of one step the later view's is the job's."""
    model, optimizer = get_state_dict(*of)
    state = {"model": model, "optimizer": optimizer, "step": step}
    dcp.save(state, checkpoint_id=FOLDER / f"{step:06d}-{epoch:06d}", process_group=group)


def load(group: dist.ProcessGroup, *of: object) -> int:
    """Load the last checkpoint that is whole, if there is one; returns its step."""
    whole = sorted(FOLDER.glob("*/.metadata"))  # written last
    if not whole:
        return 0
    model, optimizer = get_state_dict(*of)
    state = {"model": model, "optimizer": optimizer, "step": 0}
    dcp.load(state, checkpoint_id=whole[-1].parent, process_group=group)
    set_state_dict(*of, model_state_dict=model, optim_state_dict=optimizer)
    return state["step"]


def train(steps: int, kill: int | None, shrink: bool) -> tuple[float, str]:
    """Train; returns the loss at the end, and what happened on the way."""
    rank, size = dist.get_rank(), dist.get_world_size()
    members, lost, came_back, step = (), "nobody was lost", False, 0
    while step < steps:
        view = holdfast.advance()  # the step boundary, where ranks come in
        came_back = came_back or rank in view.joined
        while len(view.ranks) < size and not shrink:
            time.sleep(0.05)
            view = holdfast.advance()
        try:
            if view.joined or view.ranks != members:
                members = view.ranks
                whole = len(members) == size
                group = dist.group.WORLD if whole else dist.new_group(list(members))
                model, optimizer = make(group)
                step = load(group, model, optimizer)
            if rank == kill and step == steps // 2 + 1 and not came_back:
                model[1].register_forward_hook(lambda *_: os.kill(os.getpid(), signal.SIGKILL))
            update(model, optimizer, loss_of(model, step, members.index(rank), len(members)))
            step += 1
            if step % EVERY == 0:
                save(step, view.epoch, group, model, optimizer)
        except holdfast.PeerLost as error:
            lost, members = f"PeerLost in step {step} (rank {error.ranks[0]})", ()
    with torch.no_grad():
        return loss_of(model, step).item(), f"{lost}; {len(members)} of {size} ranks ended"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--kill", type=int, metavar="RANK", help="end it with SIGKILL half way")
    parser.add_argument("--shrink", action="store_true", help="go on without the lost rank")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("holdfast")
    loss, story = train(arguments.steps, arguments.kill, arguments.shrink)
    model, optimizer = make(None)
    for step in range(arguments.steps):
        update(model, optimizer, loss_of(model, step))
    wanted = loss_of(model, arguments.steps).item()
    assert abs(loss - wanted) < TOLERANCE * wanted, (loss, wanted)
    print(f"rank {dist.get_rank()}: {story}; loss {loss:.5f}, a single process has {wanted:.5f}")
    dist.barrier()
    dist.destroy_process_group()
    shutil.rmtree(FOLDER, ignore_errors=True)  # else the next job would go on from here


if __name__ == "__main__":
    main()
