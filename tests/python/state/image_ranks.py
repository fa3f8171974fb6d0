"""What ranks do to save images of sharded models, and to restore them in another layout."""

from __future__ import annotations

import json
import os
import pickle
import zlib
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

from holdfast import ft
from holdfast.ft.state.layout.capture import Capture
from holdfast.ft.state.layout.flatten import flatten
from holdfast.ft.state.layout.head import Head
from holdfast.ft.state.layout.plan import index
from holdfast.ft.state.layout.restore import Restore

BACKEND = os.environ.get("BACKEND", "gloo")


class Net(nn.Module):
    """Prime sizes, a tied weight, bf16, and buffers of odd kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(23, 13)
        self.up = nn.Linear(13, 34)
        self.down = nn.Linear(34, 13)
        self.norm = nn.LayerNorm(13)
        self.low = nn.Linear(13, 7, dtype=torch.bfloat16)
        self.head = nn.Linear(13, 23, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("none", torch.zeros(0, 3))
        self.register_buffer("one", torch.randn(()))
        self.register_buffer("eight", torch.randn(37).to(torch.float8_e4m3fn))
        self.register_buffer("flags", torch.randn(3, 5) > 0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.embed(x))
        x = x + self.down(torch.relu(self.up(x)))
        return self.head(x).square().mean() + self.low(x.bfloat16()).float().square().mean()


def join() -> tuple[int, int]:
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group(
        BACKEND, init_method=f"file://{os.environ['MEETING_FILE']}", rank=rank, world_size=size
    )
    return rank, size


def made(layout: str, size: int, seed: int, steps: int) -> dict:
    """A state of a model in a layout, after some steps."""
    torch.manual_seed(seed)
    net: nn.Module = Net()
    extra = {
        "wide": torch.randn(5, 31, dtype=torch.complex64),
        "plain": torch.randn(41, 3).t(),
        "large": torch.randn(331, 211),
    }
    if layout == "ddp":
        mesh = init_device_mesh("cpu", (size,))
        # Gloo knows no float8, which is among the buffers.
        net = nn.parallel.DistributedDataParallel(net, init_sync=False, broadcast_buffers=False)
    elif layout == "fsdp_tp":
        whole = init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("dp", "tp"))
        mesh = whole["dp"]
        plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
        parallelize_module(net, whole["tp"], plan)
        shard(net, mesh)
    else:
        shape = (2, size // 2) if layout == "hsdp" else (size,)
        mesh = init_device_mesh("cpu", shape, mesh_dim_names=("r", "s")[: len(shape)])
        shard(net, mesh)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    for step in range(steps):
        generator = torch.Generator().manual_seed(step)
        optimizer.zero_grad()
        net(torch.randint(0, 23, (6,), generator=generator)).backward()
        optimizer.step()
        schedule.step()
    return {
        "model": net,
        "optim": optimizer,
        "schedule": schedule,
        "rng": ft.rng(),
        "extra": {name: spread(name, tensor, mesh) for name, tensor in extra.items()},
        "steps": steps,
    }


def shard(net: nn.Module, mesh: DeviceMesh) -> None:
    fully_shard(net.low, mesh=mesh)
    fully_shard(net, mesh=mesh)


def spread(name: str, tensor: torch.Tensor, mesh: DeviceMesh) -> torch.Tensor:
    if name == "plain":
        return tensor
    last = Shard(1) if name == "wide" else Replicate()
    return distribute_tensor(tensor, mesh, [*[Replicate()] * (mesh.ndim - 1), last])


def whole(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def sums(state: dict) -> dict[str, int]:
    """Of every shared tensor, whole."""
    flat = flatten(state)
    found = {}
    for name, tensor in flat.tensors.items():
        if name not in flat.own:
            full = whole(tensor.detach()).contiguous().reshape(-1).view(torch.uint8)
            found[name] = zlib.crc32(full.numpy().tobytes())
    found["lr"] = state["optim"].param_groups[0]["lr"]
    found["steps"] = state["steps"]
    return found


def save() -> None:
    """Save this rank's image."""
    rank, size = join()
    state = made(os.environ["LAYOUT"], size, seed=5, steps=3)
    torch.manual_seed(100 + rank)
    capture = Capture(state, rank, size)
    body = bytearray(capture.body_bytes)
    capture.copy(memoryview(body))
    assert capture.moved() == []
    Path(f"head-{rank}").write_bytes(capture.head("job", 3, 1).to_bytes())
    Path(f"body-{rank}").write_bytes(body)
    tell({"sums": sums(state), "bytes": len(body), "next": float(torch.rand(()))})
    leave()


def restore() -> None:
    """Restore from all images, in this layout, into a model that has other numbers."""
    rank, size = join()
    steps = int(os.environ.get("STEPS", "0"))
    state = made(os.environ["LAYOUT"], size, seed=6, steps=steps)
    if os.environ["LAYOUT"] == "ddp":
        # Replicas that differ before must be alike afterwards.
        state["extra"]["plain"].mul_(rank + 2)
    count = int(os.environ["SAVED"])
    heads = index(Head.from_bytes(Path(f"head-{r}").read_bytes()) for r in range(count))
    work = Restore(state, heads, rank, size)
    for reading in work.fill.readings:
        work.fill.put_body(reading.rank, Path(f"body-{reading.rank}").read_bytes())
    bodies = {r: Path(f"body-{r}").read_bytes()[a : a + n] for r, (a, n) in work.rests.items()}
    work.finish(bodies)
    tell({"sums": sums(state), "next": float(torch.rand(()))})
    state["model"](torch.arange(4)).backward()
    state["optim"].step()
    leave()


# ---- by torch's own dcp.save and dcp.load --------------------------------------------------------


def flat_state(state: dict) -> dict:
    """What torch.distributed.checkpoint takes."""
    model, optimizer = get_state_dict(state["model"], state["optim"])
    return {"model": model, "optim": optimizer, "extra": state["extra"], "steps": state["steps"]}


def dcp_save() -> None:
    """Save by dcp.save and by dcp.async_save."""
    _, size = join()
    state = made(os.environ["LAYOUT"], size, seed=5, steps=3)
    url = os.environ["URL"]
    saved = flat_state(state)
    dcp.save(saved, storage_writer=ft.StateWriter(url, step=1, job="run7"))
    # As a process of its own gets it.
    writer = pickle.loads(pickle.dumps(ft.StateWriter(url, step=2, job="run7")))
    dcp.async_save(saved, storage_writer=writer).result()
    tell({"sums": sums(state)})
    leave()


def dcp_load() -> None:
    """Load each of them, in this layout."""
    _, size = join()
    for step in json.loads(os.environ["FROM"]):
        state = made(os.environ["LAYOUT"], size, seed=6 + step, steps=1)
        there = flat_state(state)
        dcp.load(there, storage_reader=ft.StateReader(os.environ["URL"], step=step))
        set_state_dict(
            state["model"],
            state["optim"],
            model_state_dict=there["model"],
            optim_state_dict=there["optim"],
        )
        state["steps"] = there["steps"]
        tell({"sums": sums(state)})
    leave()


def tell(what: object) -> None:
    print("FOUND", json.dumps(what), flush=True)


def leave() -> None:
    dist.barrier()
    dist.destroy_process_group()
