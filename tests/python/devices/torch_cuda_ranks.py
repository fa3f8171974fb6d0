"""Ranks of test_torch_cuda.py."""

from __future__ import annotations

import os
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

import holdfast


def _init(backend: str) -> tuple[int, int]:
    dist.init_process_group(
        backend,
        init_method=f"file://{os.environ['MEETING_FILE']}",
        rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]),
        timeout=timedelta(seconds=60),
    )
    return dist.get_rank(), dist.get_world_size()


def serve_both_devices_with_one_backend() -> None:
    rank, size = _init("cpu:holdfast,cuda:holdfast")
    values = torch.full((5,), float(rank))
    dist.all_reduce(values)
    assert values.tolist() == [sum(range(size))] * 5
    assert holdfast.live_ranks() == tuple(range(size))
    dist.destroy_process_group()


def reduce_on_the_current_stream() -> None:
    rank, size = _init("holdfast")
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        for count in (0, 1, 1000, 3_000_001):
            values = torch.full((count,), rank, dtype=dtype, device="cuda")
            dist.all_reduce(values)
            assert (values.cpu() == sum(range(size))).all()
    gathered = [torch.zeros(3, device="cuda") for _ in range(size)]
    dist.all_gather(gathered, torch.full((3,), float(rank), device="cuda"))
    assert [t[0].item() for t in gathered] == list(range(size))
    grid = torch.arange(24.0, device="cuda").reshape(4, 6)
    dist.all_reduce(grid.t()[1:, ::2])
    right = torch.arange(24.0).reshape(4, 6)
    right.t()[1:, ::2] *= size
    assert torch.equal(grid.cpu(), right)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        values = torch.full((1 << 20,), float(rank), device="cuda")
        work = dist.all_reduce(values, async_op=True)
        work.wait()
        doubled = values * 2
    side.synchronize()
    assert (doubled.cpu() == 2 * sum(range(size))).all()
    # A callback's streams wait for the result; so does the stream that is current at wait().
    values = torch.full((1 << 22,), float(rank), device="cuda")
    future = dist.all_reduce(values, async_op=True).get_future().then(lambda f: f.value()[0] * 3)
    assert (future.wait().cpu() == 3 * sum(range(size))).all()
    dist.destroy_process_group()


def refuse_on_a_device() -> None:
    rank, _ = _init("holdfast")
    grid = torch.ones(4, 4, device="cuda")
    with pytest.raises(holdfast.ConfigError, match="one memory"):
        dist.all_reduce(grid[0].expand(4, 4))
    with pytest.raises(holdfast.Unsupported, match="conjugated"):
        dist.all_reduce(grid.to(torch.complex64).conj())
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(holdfast.Unsupported, match="CUDA graph"), torch.cuda.graph(graph):
        dist.all_reduce(grid)
    with pytest.raises(holdfast.ProtocolError, match="in device memory"):
        dist.all_reduce(grid if rank == 0 else grid.cpu())


def sync_a_model_where_it_is() -> None:
    """Rank 0's is on the CPU."""
    rank, _ = _init("holdfast")
    device = "cpu" if rank == 0 else "cuda"
    torch.manual_seed(rank)
    model = torch.nn.Linear(300, 2000).to(device)
    grid = torch.arange(48.0, device=device).reshape(6, 8).t() + rank
    report = holdfast.sync(model, {"grid": grid})
    assert (report.source, report.fetched) == (0, 0 if rank == 0 else report.chunks)
    assert model.weight.device.type == device
    torch.manual_seed(0)
    right = torch.nn.Linear(300, 2000)
    assert torch.equal(model.weight.cpu(), right.weight)
    assert torch.equal(grid.cpu(), torch.arange(48.0).reshape(6, 8).t())
    again = holdfast.sync(model, {"grid": grid})
    assert (again.fetched, again.digest) == (0, report.digest)
    dist.destroy_process_group()


def train_as_on_the_cpu() -> None:
    rank, _ = _init("holdfast")
    losses = []
    for device in ("cpu", "cuda"):
        torch.manual_seed(7)
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
        model = torch.nn.parallel.DistributedDataParallel(model.to(device))
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
        inputs = torch.randn(32, 8, generator=torch.Generator().manual_seed(rank)).to(device)
        for _ in range(5):
            optimiser.zero_grad()
            loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
            loss.backward()
            optimiser.step()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    dist.destroy_process_group()
