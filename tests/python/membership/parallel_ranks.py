"""Training in parallel as torch knows it, told step by step: whose ranks are killed on the way.

A rank says what it saw in lines of JSON: each step that has ended, and the loss that ended the
training. What it should have seen is `parallel_deaths.py`.
"""

from __future__ import annotations

import json
import os
import re
import time
import zlib
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch_world import join

import holdfast

WIDTH = 48
BATCH = 32
LEARNING_RATE = 1e-2

# Does one step; returns its loss.
Step = Callable[[int], float]


class Holes:
    """Counts looks at a layer's weight that found rows of zeros, which no weight has."""

    def __init__(self) -> None:
        self.seen = 0
        self.stepped = 0

    def look(self, weight: Tensor) -> None:
        """Look at a whole weight as it is computed with."""
        self.seen += int((weight.detach() == 0).all(1).any())

    def before_step(self) -> None:
        """Count a step of the optimiser whose gradients come from holes."""
        self.stepped += self.seen > 0


class _Look(torch.autograd.Function):
    """Passes its input on; looks at the weight in the forward pass, and in the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, holes: Holes) -> Tensor:
        ctx.save_for_backward(weight)
        ctx.holes = holes
        holes.look(weight)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        ctx.holes.look(ctx.saved_tensors[0])
        return gradient, None, None


class Layer(nn.Linear):
    """A layer that tells of holes in its weight."""

    def __init__(self, holes: Holes) -> None:
        super().__init__(WIDTH, WIDTH)
        self._holes = holes

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(_Look.apply(x, self.weight, self._holes))


def _model(holes: Holes) -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(Layer(holes), nn.Tanh(), Layer(holes), nn.Tanh(), Layer(holes))


def _batch(step: int, rank: int) -> tuple[Tensor, Tensor]:
    chance = torch.Generator().manual_seed(1000 * step + rank)
    x = torch.randn(BATCH, WIDTH, generator=chance, requires_grad=True)
    return x, x.detach().sin()


def _local(tensors: Iterable[Tensor]) -> int:
    crc = 0
    for tensor in tensors:
        own = tensor.to_local() if hasattr(tensor, "to_local") else tensor
        crc = zlib.crc32(own.detach().numpy().tobytes(), crc)
    return crc


def _tell(**facts: object) -> None:
    print(json.dumps({"t": time.monotonic(), **facts}), flush=True)


def _train(step: Step, parameters: Iterable[Tensor], holes: Holes) -> bool:
    """Take all steps, or as many as go; return whether there was no error."""
    kept = list(parameters)
    for number in range(int(os.environ["STEPS"])):
        try:
            loss = step(number)
        except holdfast.HoldfastError as error:
            op = re.match(r"[^:;]*", str(error))
            _tell(
                error=type(error).__name__,
                step=number,
                lost=list(error.ranks),
                op=op.group() if op else "",
                text=str(error),
                stepped=holes.stepped,
            )
            return False
        _tell(step=number, loss=loss, crc=_local(kept), stepped=holes.stepped)
    return True


def _go_on(parameters: Iterable[Tensor]) -> None:
    """After a loss: the group of all is usable."""
    view = holdfast.advance()
    there = torch.ones(1)
    dist.all_reduce(there)
    _tell(usable=int(there), live=list(view.ranks), crc=_local(parameters))


def _stepper(model: nn.Module, optimizer: torch.optim.Optimizer, holes: Holes) -> Step:
    rank = dist.get_rank()

    def step(number: int) -> float:
        x, y = _batch(number, rank)
        optimizer.zero_grad()
        loss = mse_loss(model(x), y)
        loss.backward()
        holes.before_step()
        optimizer.step()
        return float(loss)

    return step


def ddp() -> None:
    holes = Holes()
    model = DistributedDataParallel(_model(holes))
    model.register_comm_hook(None, holdfast.average_gradients)
    optimizer = torch.optim.Adam(model.parameters(), LEARNING_RATE)
    _train(_stepper(model, optimizer, holes), model.parameters(), holes)


def zero1() -> None:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    holes = Holes()
    model = DistributedDataParallel(_model(holes))
    model.register_comm_hook(None, holdfast.average_gradients)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=LEARNING_RATE)
    if not _train(_stepper(model, optimizer, holes), model.parameters(), holes):
        _go_on(model.parameters())


def _sharded(mesh: Any) -> tuple[nn.Module, Step, Holes]:
    from torch.distributed.fsdp import fully_shard

    holes = Holes()
    model = _model(holes)
    for layer in model:
        if isinstance(layer, Layer):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.Adam(model.parameters(), LEARNING_RATE)
    return model, _stepper(model, optimizer, holes), holes


def fsdp2() -> None:
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    model, step, holes = _sharded(mesh)
    if not _train(step, model.parameters(), holes):
        _go_on(model.parameters())


def hsdp() -> None:
    names = ("replicate", "shard")
    mesh = dist.init_device_mesh("cpu", (2, dist.get_world_size() // 2), mesh_dim_names=names)
    model, step, holes = _sharded(mesh)
    _train(step, model.parameters(), holes)


def pipeline() -> None:
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    rank, size = dist.get_rank(), dist.get_world_size()
    holes = Holes()
    part = nn.Sequential(Layer(holes), nn.Tanh())
    optimizer = torch.optim.Adam(part.parameters(), LEARNING_RATE)
    stage = PipelineStage(part, rank, size, torch.device("cpu"))
    schedule = Schedule1F1B(stage, n_microbatches=4, loss_fn=mse_loss)

    def step(number: int) -> float:
        x, y = _batch(number, 0)
        losses: list[Tensor] = []
        optimizer.zero_grad()
        if rank == 0:
            schedule.step(x.detach())
        elif rank == size - 1:
            schedule.step(target=y, losses=losses)
        else:
            schedule.step()
        holes.before_step()
        optimizer.step()
        return float(sum(losses)) if losses else 0.0

    _train(step, part.parameters(), holes)


def train() -> None:
    """Train STEPS steps as the variable PARALLEL says."""
    join()
    {"ddp": ddp, "zero1": zero1, "fsdp2": fsdp2, "hsdp": hsdp, "pipeline": pipeline}[
        os.environ["PARALLEL"]
    ]()
    _tell(end=True)
    dist.destroy_process_group()
