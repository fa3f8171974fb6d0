"""Ranks that train with every reducer and optimiser, and ranks that die while they do."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import zlib
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch_world import join

import holdfast
from holdfast import compress

STEPS = 120


def digits(seed: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Ten patterns of 8 x 8 points under noise."""
    patterns = torch.randn(10, 64, generator=torch.Generator().manual_seed(3))
    chance = torch.Generator().manual_seed(seed)
    y = torch.randint(10, (count,), generator=chance)
    return patterns[y] + 2.0 * torch.randn(count, 64, generator=chance), y


def model() -> nn.Module:
    torch.manual_seed(11)
    return nn.Sequential(
        nn.Linear(64, 96), nn.Tanh(), nn.Linear(96, 96), nn.Tanh(), nn.Linear(96, 10)
    )


REDUCERS: dict[str, Callable[[], compress.Reducer]] = {
    "powersgd": lambda: compress.PowerSGD(4),
    "powersgd, no feedback": lambda: compress.PowerSGD(1, error_feedback=False, warm_start=False),
    "one bit": lambda: compress.OneBit(block=256),
    "top 2 %": lambda: compress.TopK(0.02),
    "top 0.2 %, no feedback": lambda: compress.TopK(0.002, error_feedback=False),
}
OPTIMIZERS: dict[str, Callable[[list[nn.Parameter]], compress.CompressedOptimizer]] = {
    "1-bit adam": lambda p: compress.OneBitAdam(p, 1e-3, freeze_step=30, block=256),
    "0/1 adam": lambda p: compress.ZeroOneAdam(p, 1e-3, freeze_step=30, local_start=60, block=256),
    "1-bit lamb": lambda p: compress.OneBitLamb(p, 1e-2, freeze_step=30, block=256),
    "galore": lambda p: compress.GaLore(p, 3e-3, rank=8, refresh=20, scale=1.0),
    "apollo": lambda p: compress.Apollo(p, 3e-3, rank=8, refresh=10),
    "demo": lambda p: compress.DeMo(p, 1e-3, decay=0.9, chunk=32, top_k=16),
}


def _report(net: nn.Module) -> dict[str, float]:
    flat = torch.cat([p.detach().flatten() for p in net.parameters()])
    x, y = digits(0, 2000)
    with torch.no_grad():
        loss = float(nn.functional.cross_entropy(net(x), y))
    return {"loss": loss, "hash": zlib.crc32(flat.numpy().tobytes())}


def _train(net: nn.Module, optimizer: torch.optim.Optimizer, rank: int) -> None:
    for step in range(STEPS):
        x, y = digits(1 + 100 * step + rank, 32)
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()


def train() -> None:
    """Each method in turn over BACKEND; small buckets, so that several are under way."""
    rank, _ = join(os.environ["BACKEND"])
    found: dict[str, dict[str, float]] = {}
    for method in ("plain", *REDUCERS):
        net = model()
        ddp = DistributedDataParallel(net, bucket_cap_mb=0.02)
        if method != "plain":
            compress.register(ddp, REDUCERS[method]())
        _train(ddp, torch.optim.SGD(net.parameters(), lr=0.1), rank)
        found[method] = _report(net)
    for method, make in OPTIMIZERS.items():
        net = model()
        optimizer = make(list(net.parameters()))
        _train(net, optimizer, rank)
        if isinstance(optimizer, compress.ZeroOneAdam):
            optimizer.synchronise()
        found[method] = _report(net)
    print("FOUND", json.dumps(found), flush=True)
    _leave()


def _leave() -> None:
    backend = dist.get_backend()
    dist.destroy_process_group()
    if backend == "gloo":
        # Its threads let go of tensors while the interpreter ends, which aborts one run in ten.
        os._exit(0)


def fsdp() -> None:
    """FSDP2 over two shards, replicated twice; the replicas' all-reduce is a reducer's.

    BACKEND=hook: from FSDP's own hook; else called on each gradient after backward.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    rank, _ = join("holdfast")
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replica", "shard"))
    net = model()
    fully_shard(net, mesh=mesh["shard"])
    reducer = compress.PowerSGD(4, group=mesh.get_group("replica"))
    hooked = os.environ["BACKEND"] == "hook"
    if hooked:
        net.set_all_reduce_hook(reducer.in_place("all"))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(STEPS):
        x, y = digits(1 + 100 * step + rank, 32)
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        for name, p in net.named_parameters():
            if not hooked:
                reducer(name, p.grad.to_local())
        optimizer.step()
    full = {name: p.full_tensor().detach() for name, p in net.named_parameters()}
    whole = model()
    whole.load_state_dict(full)
    print("FOUND", json.dumps({"fsdp": _report(whole)}), flush=True)
    dist.destroy_process_group()


def over_a_group() -> None:
    """The same without torch.distributed; a codec that the group has not is refused."""
    torch.set_num_threads(1)
    group = holdfast.init()
    exchange = compress.GroupExchange(group)
    found: dict[str, dict[str, float]] = {}
    for method, make in {
        "powersgd": lambda: compress.PowerSGD(4, exchange=exchange),
        "one bit": lambda: compress.OneBit(block=256, exchange=exchange),
        "top 2 %": lambda: compress.TopK(0.02, exchange=exchange),
    }.items():
        net, reducer = model(), make()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(STEPS):
            x, y = digits(1 + 100 * step + group.rank, 32)
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            named = [(name, p.grad) for name, p in net.named_parameters()]
            for pending in reducer.reduction(named):
                pending.wait()
            optimizer.step()
        found[method] = _report(net)
    try:
        compress.PowerSGD(4, codec="none such", exchange=exchange)("w", torch.randn(64, 64))
    except ValueError as error:
        assert "none such" in str(error), error
    except NotImplementedError as error:
        assert "none such" in str(error), error
    else:
        raise AssertionError("a codec that is none was accepted")
    print("FOUND", json.dumps(found), flush=True)


CHURNED: dict[str, Callable[[], compress.Reducer]] = {
    "powersgd": lambda: compress.PowerSGD(2),
    "one bit": lambda: compress.OneBit(block=256, start_step=1),
    "top-k": lambda: compress.TopK(0.05),
}


def _wrap(net: nn.Module, method: compress.Reducer | compress.CompressedOptimizer) -> nn.Module:
    if isinstance(method, compress.CompressedOptimizer):
        return net
    ddp = DistributedDataParallel(net, init_sync=False, bucket_cap_mb=0.02)
    compress.register(ddp, method)
    return ddp


def churn() -> None:
    """Rank 1 dies in step 30, unless it has come back (AGAIN); METHOD averages."""
    rank, _ = join("holdfast")
    net = model()
    method: compress.Reducer | compress.CompressedOptimizer
    if os.environ["METHOD"] in CHURNED:
        method = CHURNED[os.environ["METHOD"]]()
        optimizer: torch.optim.Optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        shared = (net, optimizer, method.shared)
    else:
        method = optimizer = OPTIMIZERS[os.environ["METHOD"]](list(net.parameters()))
        shared = (net, method.common)
    progress = {"step": 0, "came": 0}
    before, wrapped = "", None
    while progress["step"] < STEPS:
        view = holdfast.advance()
        if str(view.ranks) != before or view.joined:
            method.on_view(view)
        if view.joined:
            holdfast.sync(*shared, progress)
            progress["came"] += 1
        if wrapped is None or view.joined:
            wrapped = _wrap(net, method)
        before = str(view.ranks)
        step = progress["step"]
        if step == 30 and rank == 1 and "AGAIN" not in os.environ:
            threading.Timer(0.002, os.kill, (os.getpid(), signal.SIGKILL)).start()
        x, y = digits(1 + 100 * step + rank, 32)
        optimizer.zero_grad()
        nn.functional.cross_entropy(wrapped(x), y).backward()
        optimizer.step()
        progress["step"] += 1
        time.sleep(float(os.environ["STEP_S"]))
    print("END", json.dumps({**_report(net), **progress}), flush=True)
    dist.destroy_process_group()
