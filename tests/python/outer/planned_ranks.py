"""Ranks that train as a plan says, and tell what their rounds take."""

from __future__ import annotations

import json
import os
import statistics
import threading
import time

import torch
import torch.distributed as dist
from outer_ranks import leave
from torch_world import join

from holdfast import ft

# Left out: the first exchanges meet cold connections.
WARM, ROUNDS = 2, 8
# Steps without a trainer, which say what a local step takes.
ALONE = 20


def rounds() -> None:
    """Rounds of a plan (PLAN, JSON), with steps of STEP_S seconds."""
    join("holdfast")
    made = json.loads(os.environ["PLAN"])
    step_s = float(os.environ["STEP_S"])
    parts = {f"layers.{part}.w": made["parameters"] // 4 for part in range(4)}
    model = {name: torch.nn.Parameter(torch.zeros(count)) for name, count in parts.items()}
    inner = torch.optim.SGD(model.values(), 0.01)
    # The same on all: models have to be alike when the trainer begins.
    chance = torch.Generator().manual_seed(1)
    for parameter in model.values():
        parameter.grad = torch.randn(parameter.shape, generator=chance)
    arguments = {name: made[name] for name in ("inner_steps", "codec")}
    if made["method"] != "DiLoCo":
        arguments |= {"delay": made["delay"], "fragments": made["fragments"]}
    computes = threading.Event()
    alone = time.monotonic()
    for _ in range(ALONE):
        computes.wait(step_s)
        inner.step()
    alone = (time.monotonic() - alone) / ALONE
    trainer = getattr(ft, made["method"])(model, inner, **arguments)
    dist.barrier()
    ends = [time.monotonic()]
    while len(ends) <= ROUNDS:
        computes.wait(step_s)
        trainer.step()
        if trainer.at_boundary:
            ends.append(time.monotonic())
    trainer.finish()
    took = [after - before for before, after in zip(ends[WARM:], ends[WARM + 1 :], strict=False)]
    print("FOUND", json.dumps({"round_s": statistics.mean(took), "step_s": alone}), flush=True)
    dist.barrier()
    leave()
