"""What the loss of a rank does to parallel training: every kind of it in one set of processes."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed._functional_collectives import all_to_all_single_autograd
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

import holdfast

# Divides by the numbers of ranks, as the batch does.
WIDTH = 12
BATCH = 12
VICTIM = 1
# Of a process group without a loss, on a busy machine.
LONGEST_S = 20.0

Step = Callable[[], float]


class Mlp(nn.Module):
    """Two layers; their weights are never zero, so that a row of zeros is a hole."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(torch.tanh(self.up(x)))


class Experts(nn.Module):
    """A mixture with an expert to a rank: tokens travel there and back."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5 + dist.get_rank())
        self.expert = Mlp()

    def forward(self, x: Tensor) -> Tensor:
        even = [x.shape[0] // dist.get_world_size()] * dist.get_world_size()
        there = all_to_all_single_autograd(x, even, even, dist.group.WORLD)
        return all_to_all_single_autograd(self.expert(there), even, even, dist.group.WORLD)


def _steps(model: nn.Module, optimizer: torch.optim.Optimizer) -> Step:
    x = torch.randn(BATCH, WIDTH, generator=torch.Generator().manual_seed(1 + dist.get_rank()))

    def step() -> float:
        optimizer.zero_grad()
        loss = (model(x) - x.flip(-1)).square().mean()
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step


def _sgd(model: nn.Module) -> Step:
    return _steps(model, torch.optim.SGD(model.parameters(), lr=0.05))


def _sharded(mesh: DeviceMesh) -> nn.Module:
    model = Mlp()
    for layer in (model.up, model.down):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def fsdp2() -> Step:
    return _sgd(_sharded(init_device_mesh("cpu", (dist.get_world_size(),))))


def hsdp() -> Step:
    return _sgd(_sharded(init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicas", "shards"))))


def tensor_parallel() -> Step:
    """With activations that are shards between the layers: all_gather in, reduce_scatter out."""
    plan = {
        "up": ColwiseParallel(input_layouts=Shard(0)),
        "down": RowwiseParallel(output_layouts=Shard(0)),
    }
    return _sgd(parallelize_module(Mlp(), init_device_mesh("cpu", (dist.get_world_size(),)), plan))


def tensor_parallel_by_sums() -> Step:
    """With activations that every rank has: an all_reduce of what the ranks add up."""
    plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
    return _sgd(parallelize_module(Mlp(), init_device_mesh("cpu", (dist.get_world_size(),)), plan))


def zero1() -> Step:
    model = DistributedDataParallel(Mlp())
    return _steps(model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.05))


def moe() -> Step:
    return _sgd(Experts())


KINDS = {
    kind.__name__: kind
    for kind in (fsdp2, hsdp, tensor_parallel, tensor_parallel_by_sums, zero1, moe)
}


def _start() -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "holdfast",
        init_method=f"file://{os.environ['MEETING_FILE']}",
        rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]),
    )


def _run_into(step: Step) -> dict[str, object]:
    """Make steps until one fails; whom it says to be lost, when, and what the losses were."""
    deadline = time.monotonic() + LONGEST_S
    losses: list[float] = []
    while time.monotonic() < deadline:
        try:
            losses.append(step())
        except holdfast.PeerLost as error:
            return {"ranks": error.ranks, "text": str(error), "at": time.time(), "losses": losses}
    raise AssertionError(f"no error in {len(losses)} steps: {losses[-5:]}")


def lose_one() -> None:
    """Rank 1 is killed in the middle of the first kind's steps; the others follow it."""
    _start()
    steps = {name: KINDS[name]() for name in os.environ["KINDS"].split()}
    for step in steps.values():
        step()
        step()
    dist.barrier()
    if dist.get_rank() == VICTIM:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGKILL)).start()
    found = {}
    for name, step in steps.items():
        began = time.time()
        found[name] = {**_run_into(step), "began": began}
    print("FOUND", json.dumps(found), flush=True)
    # Until all have been told.
    holdfast.advance()
    os._exit(0)


def lose_one_of_a_replica() -> None:
    """Rank 1 is killed; its mate in the shards stops, the other replica trains on, whole."""
    _start()
    rank = dist.get_rank()
    step = hsdp()
    losses = [step() for _ in range(3)]
    dist.barrier()
    if rank == VICTIM:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGKILL)).start()
    if rank < 2:
        found = _run_into(step)
        print("FOUND", json.dumps({"hsdp": {**found, "began": 0}}), flush=True)
        os._exit(0)
    while set(holdfast.live_ranks()) != {2, 3}:
        losses.append(step())
    after = [step() for _ in range(20)]
    print("WHOLE", json.dumps({"before": losses, "after": after}), flush=True)
    os._exit(0)


def ask_for_zeros() -> None:
    """What every call says of a hole, in torch and with a Group; rank 1 of 3 is gone."""
    _start()
    rank, size = dist.get_rank(), dist.get_world_size()
    mine, everybody = torch.full((4,), rank + 1.0), torch.full((4 * size,), 7.0)
    dist.all_gather_into_tensor(everybody, mine)
    assert everybody[4 * VICTIM] == VICTIM + 1
    dist.barrier()
    if rank == VICTIM:
        os.kill(os.getpid(), signal.SIGKILL)
    rows = [torch.full((4,), 7.0) for _ in range(size)]
    for call in (
        lambda: dist.all_gather_into_tensor(everybody, mine),
        lambda: dist.all_gather(rows, mine),
        lambda: dist.gather(mine, rows if rank == 0 else None, dst=0),
        lambda: dist.all_to_all_single(everybody, everybody.clone()),
        lambda: dist.all_gather_object([None] * size, rank),
        lambda: dist.all_gather(rows, mine, async_op=True).wait(),  # type: ignore[union-attr]
    ):
        with pytest.raises(holdfast.PeerLost, match=r"lost rank 1.*on_hole=zero") as told:
            call()
        assert (told.value.ranks, told.value.epoch) == ((VICTIM,), 2)
    # What is no gather goes on, and so does a sum that is made of gathers.
    total = torch.ones(3)
    dist.all_reduce(total)
    assert (total == size - 1).all()
    part = torch.zeros(2)
    dist.reduce_scatter_tensor(part, torch.ones(2 * size))
    assert (part == size - 1).all()
    out = torch.zeros(2)
    dist.scatter(out, [torch.full((2,), float(r)) for r in range(size)] if rank == 0 else None)
    assert (out == rank).all()
    sparse = torch.sparse_coo_tensor([[rank]], [2.0], (size,))
    dist.all_reduce(sparse)
    assert sparse.to_dense().tolist() == [2.0, 0.0, 2.0]
    with holdfast.on_hole("zero"):
        work = dist.all_gather_into_tensor(everybody, mine, async_op=True)
        with holdfast.on_hole("raise"), pytest.raises(holdfast.PeerLost):
            dist.all_gather_into_tensor(torch.empty_like(everybody), mine)
    assert work is not None
    work.wait()
    assert everybody.tolist() == [1.0] * 4 + [0.0] * 4 + [3.0] * 4
    assert holdfast.outcome(work).missing == (VICTIM,)
    with pytest.raises(holdfast.PeerLost):
        dist.all_gather_into_tensor(everybody, mine)
    for wrong in ("ignore", None):
        context = holdfast.on_hole(wrong)  # type: ignore[arg-type]
        with pytest.raises(holdfast.ConfigError, match="accepted"), context:
            raise AssertionError("a word that is none")
    dist.destroy_process_group()


def ask_a_group_for_zeros() -> None:
    group = holdfast.init()
    rank, size = group.rank, group.size
    mine, rows = np.full(4, rank + 1.0), np.full((size, 4), 7.0)
    group.all_gather(rows, mine)
    group.barrier()
    if rank == VICTIM:
        os.kill(os.getpid(), signal.SIGKILL)
    root = rows if rank == 2 else None
    splits = [4] * size
    for call in (
        lambda: group.all_gather(rows, mine),
        lambda: group.all_gather(rows, mine, on_hole="raise"),
        lambda: group.all_gather(list(rows), mine),
        lambda: group.all_to_all(rows, np.ones((size, 4))),
        lambda: group.all_to_all(rows, np.ones((size, 4)), splits, splits),
        lambda: group.gather(root, mine, root=2),
        lambda: group.all_gather(rows, mine, async_op=True).wait(),  # type: ignore[union-attr]
    ):
        with pytest.raises(holdfast.PeerLost, match=r"lost rank 1.*on_hole=zero") as told:
            call()
        assert (told.value.ranks, told.value.epoch) == ((VICTIM,), 2)
    given = np.array([1.0, 0.0, 3.0])
    for call in (
        lambda: group.all_gather(rows, mine, on_hole="zero"),
        lambda: group.all_to_all(rows, np.full((size, 4), rank + 1.0), on_hole="zero"),
        lambda: group.gather(root, mine, root=2, on_hole="zero"),
    ):
        rows[:] = 7 if rank == 2 else given[:, None]
        call()
        assert (rows == given[:, None]).all(), rows
        assert group.outcome is not None
        assert group.outcome.missing == (VICTIM,)
    with pytest.raises(holdfast.ConfigError, match='on_hole = \'no\'; accepted: "raise", "zero"'):
        group.all_gather(rows, mine, on_hole="no")
    group.close()


def holes_are_zeros() -> None:
    _start()
    rank, size = dist.get_rank(), dist.get_world_size()
    dist.barrier()
    if rank == VICTIM:
        os.kill(os.getpid(), signal.SIGKILL)
    rows = torch.full((size, 2), 7.0)
    dist.all_gather_into_tensor(rows.view(-1), torch.full((2,), rank + 1.0))
    assert rows[:, 0].tolist() == [1.0, 0.0, 3.0]
    with holdfast.on_hole("raise"), pytest.raises(holdfast.PeerLost, match="lost rank 1"):
        dist.all_gather_into_tensor(rows.view(-1), torch.ones(2))
    dist.destroy_process_group()
