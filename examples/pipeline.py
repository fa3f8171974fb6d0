"""A pipeline: torch.distributed.pipelining over Holdfast, one part of the model on each rank.

    holdfast run -n 3 examples/pipeline.py    (torchrun --nproc-per-node 3 examples/pipeline.py)

Microbatches go through the stages by send and receive, in the order 1F1B. Each rank trains the
whole model alone beside it, and compares its part's weights: they must be the same to rounding.
"""

from __future__ import annotations

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

MICROBATCHES = 4
TOLERANCE = 1e-6


def parts(count: int) -> list[nn.Module]:
    """The model, cut in `count` parts; alike on all ranks."""
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(32, 32), nn.Tanh()) for _ in range(count)]


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(16, 32, generator=torch.Generator().manual_seed(step))
    return x, x.flip(1).sin()


def alone(count: int, steps: int) -> tuple[list[nn.Module], float]:
    """Train it in one process; returns its parts, and the loss of the last step."""
    model = nn.Sequential(*parts(count))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        x, y = batch(step)
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return list(model), loss.item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20)
    steps = parser.parse_args().steps
    torch.set_num_threads(1)
    dist.init_process_group("holdfast")
    rank, size = dist.get_rank(), dist.get_world_size()
    first, last = rank == 0, rank == size - 1

    mine = parts(size)[rank]
    optimizer = torch.optim.SGD(mine.parameters(), lr=0.1)
    stage = PipelineStage(mine, rank, size, torch.device("cpu"))
    schedule = Schedule1F1B(stage, MICROBATCHES, loss_fn=nn.functional.mse_loss)
    for step in range(steps):
        x, y = batch(step)
        losses: list[torch.Tensor] = []
        optimizer.zero_grad()
        schedule.step(*((x,) if first else ()), target=y if last else None, losses=losses)
        optimizer.step()

    whole, wanted = alone(size, steps)
    error = max(
        (a - b).abs().max().item()
        for a, b in zip(mine.parameters(), whole[rank].parameters(), strict=True)
    )
    assert error < TOLERANCE, error
    if last:
        loss = torch.stack(losses).mean().item()
        assert abs(loss - wanted) < TOLERANCE, (loss, wanted)
        print(
            f"{steps} steps in {size} stages: loss {loss:.6f}, a single process has {wanted:.6f}; "
            f"weights differ by {error:.0e}"
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
