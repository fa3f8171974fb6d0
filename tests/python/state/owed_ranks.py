"""What ranks with compressed optimisers and ZeRO do to save images, and to go on from them."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch_world import join

from holdfast import compress
from holdfast.ft.state.layout.capture import Capture
from holdfast.ft.state.layout.flatten import flatten
from holdfast.ft.state.layout.head import Head
from holdfast.ft.state.layout.local import kinds_of, replicas_of
from holdfast.ft.state.layout.plan import index
from holdfast.ft.state.layout.restore import Restore

KINDS = ("1-bit adam", "demo", "powersgd", "zero")


def made(kind: str, seed: int) -> dict[str, Any]:
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(31, 40), nn.Tanh(), nn.Linear(40, 7))
    state: dict[str, Any] = {"model": net}
    if kind == "1-bit adam":
        state["optim"] = compress.OneBitAdam(net.parameters(), 1e-3, freeze_step=4, block=64)
    elif kind == "demo":
        state["optim"] = compress.DeMo(net.parameters(), 1e-3, decay=0.9, chunk=32, top_k=4)
    elif kind == "powersgd":
        state["model"] = nn.parallel.DistributedDataParallel(net)
        state["reducer"] = compress.PowerSGD(2)
        compress.register(state["model"], state["reducer"])
        state["optim"] = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    else:
        state["optim"] = ZeroRedundancyOptimizer(net.parameters(), torch.optim.AdamW, lr=1e-3)
    return state


def train(kind: str, state: dict[str, Any], rank: int, steps: range) -> None:
    for step in steps:
        x = torch.randn(8, 31, generator=torch.Generator().manual_seed(100 * step + rank))
        state["optim"].zero_grad()
        state["model"](x).square().mean().backward()
        if kind == "zero":
            for parameter in state["model"].parameters():
                dist.all_reduce(parameter.grad)
        state["optim"].step()


def residuals_of(state: dict[str, Any]) -> dict[str, list[float]]:
    """Sums of a rank's residuals; those that are spread, by their places."""
    holder = state.get("reducer", state["optim"])
    if not hasattr(holder, "residuals"):
        return {}
    found = {}
    told = holder.residuals.state_dict()
    for name, tensor in told["kept"].items():
        whole = tensor.double().flatten()
        if name in told["spread"]:
            start, total, _ = told["spread"][name]
            there = max(0, min(whole.numel(), total - start))
            placed = torch.zeros(total, dtype=torch.float64)
            placed[start : start + there] = whole[:there]
            whole = placed
        found[name] = [float(whole.sum()), float(whole[: len(whole) // 3].sum())]
    return found


def bits(state: dict[str, Any]) -> int:
    flat = torch.cat([p.detach().flatten() for p in state["model"].parameters()])
    return zlib.crc32(flat.numpy().tobytes())


def kept_bits(state: dict[str, Any]) -> dict[str, int]:
    """Of an optimiser's tensors on this rank."""
    tensors = flatten(state).tensors
    return {
        name: zlib.crc32(tensor.detach().numpy().tobytes())
        for name, tensor in tensors.items()
        if name.startswith("optim/state/")
    }


def told_by_all(what: Any, size: int) -> list[Any]:
    found: list[Any] = [None] * size
    dist.all_gather_object(found, what)
    return found


def save() -> None:
    """Train a little, save, and go on."""
    rank, size = join("gloo")
    told: dict[str, Any] = {}
    for kind in KINDS:
        state = made(kind, 1)
        train(kind, state, rank, range(8))
        replicas = replicas_of(told_by_all(kinds_of(flatten(state)), size), rank)
        capture = Capture(state, rank, size, replicas)
        body = bytearray(capture.body_bytes)
        capture.copy(memoryview(body))
        Path(f"{kind}-head-{rank}").write_bytes(capture.head("job", 8, 1).to_bytes())
        Path(f"{kind}-body-{rank}").write_bytes(body)
        told[kind] = {"bits": bits(state), "owed": residuals_of(state), "kept": kept_bits(state)}
        train(kind, state, rank, range(8, 12))
        told[kind]["end"] = bits(state)
    print("FOUND", json.dumps(told), flush=True)
    dist.destroy_process_group()


def restore() -> None:
    """Restore into as many ranks, or others, and go on."""
    rank, size = join("gloo")
    saved = int(os.environ["SAVED"])
    told: dict[str, Any] = {}
    for kind in KINDS:
        state = made(kind, 2)
        if kind == "powersgd":
            # DDP makes its buckets anew after a step, and the order of sums goes by them.
            train(kind, state, rank, range(1))
        heads = [Head.from_bytes(Path(f"{kind}-head-{r}").read_bytes()) for r in range(saved)]
        bodies = [Path(f"{kind}-body-{r}").read_bytes() for r in range(saved)]
        work = Restore(state, index(heads), rank, size, check=False)
        work.refuse_unknown(name for names in told_by_all(work.names, size) for name in names)
        for reading in work.fill.readings:
            work.fill.put(reading.rank, reading.gather(bodies[reading.rank]))
        work.finish({r: bodies[r][at : at + n] for r, (at, n) in work.rests.items()})
        told[kind] = {"bits": bits(state), "owed": residuals_of(state), "kept": kept_bits(state)}
        train(kind, state, rank, range(8, 12))
        told[kind]["end"] = bits(state)
    print("FOUND", json.dumps(told), flush=True)
    dist.destroy_process_group()
