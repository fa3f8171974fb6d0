"""DDP training whose ranks are killed and come back."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import zlib
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch_world import join

import holdfast


def _data(seed: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Points of a fixed function with noise."""
    chance = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 8, generator=chance)
    y = torch.sin(x.sum(1, keepdim=True)) + 0.1 * torch.randn(count, 1, generator=chance)
    return x, y


def _wrap(model: nn.Module) -> DistributedDataParallel:
    ddp = DistributedDataParallel(model, init_sync=False)
    ddp.register_comm_hook(None, holdfast.average_gradients)
    return ddp


def train() -> None:
    """STEPS steps; the processes that KILLS names ("step:rank ...") die in mid-step, once each."""
    steps = int(os.environ["STEPS"])
    kills = dict(pair.split(":") for pair in os.environ["KILLS"].split())
    if "MEETING_FILE" in os.environ:
        rank, _ = join("holdfast")
    else:
        dist.init_process_group("holdfast")
        rank = dist.get_rank()
    torch.set_num_threads(1)
    torch.manual_seed(7)
    model = nn.Sequential(
        nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    ddp = _wrap(model)
    progress = {"step": 0, "came": 0, "lost": 0}
    while progress["step"] < steps:
        view = holdfast.advance()
        if view.joined:
            holdfast.sync(model, optimizer, progress)
            ddp = _wrap(model)
            progress["came"] += 1
        step = progress["step"]
        marker = Path(f"killed-{step}")
        if kills.get(str(step)) == str(rank) and not marker.exists():
            marker.touch()
            threading.Timer(0.002, os.kill, (os.getpid(), signal.SIGKILL)).start()
        x, y = _data(1 + step * 100 + rank, 64)
        optimizer.zero_grad()
        nn.functional.mse_loss(ddp(x), y).backward()
        optimizer.step()
        there = torch.ones(1)
        work = dist.all_reduce(there, async_op=True)
        work.wait()
        progress["lost"] += len(holdfast.outcome(work).missing) > 0
        progress["step"] += 1
        time.sleep(float(os.environ.get("STEP_S", "0")))
    x, y = _data(0, 4096)
    with torch.no_grad():
        loss = float(nn.functional.mse_loss(model(x), y))
    flat = torch.cat([p.detach().flatten() for p in model.parameters()])
    state = flat.numpy().tobytes() + json.dumps(progress).encode()
    print("END", json.dumps({"loss": loss, "hash": zlib.crc32(state), **progress}), flush=True)
    dist.destroy_process_group()
