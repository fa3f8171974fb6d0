"""The same training programs on any backend; they print losses for the tests to compare."""

from __future__ import annotations

import json
import os

import torch
import torch.distributed as dist
from torch import nn
from torch_world import join


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 4)
    )


def batch(rank: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    chance = torch.Generator().manual_seed(1000 * step + rank)
    x = torch.randn(8, 16, generator=chance)
    return x, (x[:, :4] * 2).sin()


def train(parallel: nn.Module, rank: int) -> list[float]:
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1)
    losses = []
    for step in range(8):
        x, y = batch(rank, step)
        loss = nn.functional.mse_loss(parallel(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def report(rank: int, losses: list[float]) -> None:
    print("LOSSES", json.dumps(losses), flush=True)
    backend = dist.get_backend()
    dist.destroy_process_group()
    if backend == "gloo":
        # Its threads let go of tensors while the interpreter ends, which aborts one run in ten.
        os._exit(0)


def ddp() -> None:
    rank, _ = join(os.environ["BACKEND"])
    report(rank, train(nn.parallel.DistributedDataParallel(model(), bucket_cap_mb=0.01), rank))


def fsdp() -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    rank, size = join(os.environ["BACKEND"])
    mesh = init_device_mesh("cpu", (size,))
    sharded = model()
    for layer in sharded:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(sharded, mesh=mesh)
    report(rank, train(sharded, rank))


def dtensor() -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    rank, size = join(os.environ["BACKEND"])
    mesh = init_device_mesh("cpu", (size,))
    torch.manual_seed(0)
    left, right = torch.randn(12, 20), torch.randn(20, 9)
    a = distribute_tensor(left, mesh, [Shard(1)])
    b = distribute_tensor(right, mesh, [Shard(0)])
    product = (a @ b).redistribute(mesh, [Replicate()]).to_local()
    rows = distribute_tensor(left, mesh, [Shard(0)])
    moved = rows.redistribute(mesh, [Shard(1)]).redistribute(mesh, [Replicate()]).to_local()
    torch.testing.assert_close(product, left @ right)
    torch.testing.assert_close(moved, left)
    report(rank, [*product.flatten().tolist(), rows.sum().full_tensor().item()])
