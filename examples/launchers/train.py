"""Data-parallel training that any launcher starts; see README.md beside it."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import nn

# What other launchers call RANK, WORLD_SIZE and LOCAL_RANK.
NAMES = {
    "RANK": ("SLURM_PROCID", "JOB_COMPLETION_INDEX"),
    "WORLD_SIZE": ("SLURM_NTASKS",),
    "LOCAL_RANK": ("SLURM_LOCALID",),
}


def main() -> None:
    """Train a small model; every rank ends with the same weights."""
    for name, others in NAMES.items():
        for other in others:
            if other in os.environ:
                os.environ.setdefault(name, os.environ[other])
    torch.set_num_threads(1)
    dist.init_process_group("holdfast")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    chance = torch.Generator().manual_seed(rank)
    for _ in range(50):
        x = torch.randn(32, 8, generator=chance)
        loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.all_reduce(loss.detach(), op=dist.ReduceOp.AVG)
    print(f"rank {rank} of {dist.get_world_size()}: loss {loss.item():.4f}", flush=True)
    assert loss.item() < 0.1
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
