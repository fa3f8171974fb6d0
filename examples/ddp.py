"""DistributedDataParallel on Holdfast: one word changes, and a kill -9 costs nobody a step.

    holdfast run -n 4 examples/ddp.py              (torchrun --nproc-per-node 4 examples/ddp.py)
    holdfast run -n 4 --respawn examples/ddp.py --kill 2

With --kill that rank ends itself by SIGKILL in the middle of a backward pass. The others end the
step with the gradients that are left. The launcher starts the rank again, and it takes its place
at a step boundary. --backend gloo is the same program without Holdfast.
"""

from __future__ import annotations

import argparse
import os
import signal
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import holdfast


def batch(rank: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw from rank and step alone: a restarted rank draws what the lost one would have drawn."""
    x = torch.randn(32, 64, generator=torch.Generator().manual_seed(100_000 * rank + step))
    return x, x[:, :8].sin().sum(1, keepdim=True)


def wrap(model: nn.Module, backend: str) -> DistributedDataParallel:
    """Wrap it; all ranks have the same parameters already."""
    ddp = DistributedDataParallel(model, init_sync=False)
    if backend == "holdfast":
        # Divides by the ranks that are in the sum; DDP alone divides by the size of the group.
        ddp.register_comm_hook(None, holdfast.average_gradients)
    return ddp


def train(backend: str, steps: int, kill: int | None) -> tuple[nn.Module, dict]:
    """Train; returns the model and, of each step, how many ranks were in it and its seconds."""
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 512), nn.Tanh(), nn.Linear(512, 512), nn.Linear(512, 1))
    ddp = wrap(model, backend)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    history = {"ranks": [], "seconds": []}
    came_back, there = False, size
    # Whoever was killed is waited for: the job is to end with everybody.
    while len(history["ranks"]) < steps or there < size:
        if backend == "holdfast":  # the step boundary, where ranks come in
            view = holdfast.advance()
            there = len(view.ranks)
            if view.joined:
                came_back = came_back or rank in view.joined
                holdfast.sync(model, optimizer, history)  # newcomers take over the others' state
                ddp = wrap(model, backend)
        step, start = len(history["ranks"]), time.monotonic()
        x, y = batch(rank, step)
        loss = nn.functional.mse_loss(ddp(x), y)
        if rank == kill and step == steps // 2 and not came_back:
            # The first layer's gradient is the last one; the others' are on their way by then.
            model[0].weight.register_hook(lambda _: os.kill(os.getpid(), signal.SIGKILL))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history["ranks"].append(there)
        history["seconds"].append(time.monotonic() - start)
    return model, history


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="holdfast", help="holdfast or gloo")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--kill", type=int, metavar="RANK", help="end it with SIGKILL half way")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group(arguments.backend)  # the word
    model, history = train(arguments.backend, arguments.steps, arguments.kill)

    weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    highest, lowest = weights.clone(), weights.clone()
    dist.all_reduce(highest, op=dist.ReduceOp.MAX)
    dist.all_reduce(lowest, op=dist.ReduceOp.MIN)
    assert torch.equal(highest, lowest), "ranks ended with different weights"
    x, y = batch(-1, 0)
    loss = nn.functional.mse_loss(model(x), y).item()
    assert loss < y.var().item() / 2, f"learned nothing: {loss}"
    if dist.get_rank() == 0:
        seconds = sorted(history["seconds"])
        print(
            f"{len(seconds)} steps with {min(history['ranks'])} to {max(history['ranks'])} ranks, "
            f"none of them twice; the longest took {1e3 * seconds[-1]:.0f} ms, the median "
            f"{1e3 * seconds[len(seconds) // 2]:.1f} ms; same weights on all, loss {loss:.5f}"
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
