"""Sites of two ranks each, whose models are sharded, beside members without sharding."""

from __future__ import annotations

import copy
import functools
import json
import os
import time
import warnings
import zlib
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from methods import H, batch, bits, model
from outer_ranks import MOST_ROUNDS, end_when_begun, leave
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch_world import expect, join

import holdfast
from holdfast import ft
from holdfast.errors import PeerLost
from holdfast.ft.outer import mean

ROUNDS = 3
DTYPE = torch.float64

METHODS = {
    "diloco": lambda m, i, g: ft.DiLoCo(m, i, g, inner_steps=H),
    "streaming": lambda m, i, g: ft.StreamingDiLoCo(m, i, g, inner_steps=H, fragments=3, delay=1),
    "eager": lambda m, i, g: ft.AsyncDiLoCo(m, i, g, inner_steps=H),
    "local sgd": lambda m, i, g: ft.LocalSGD(m, i, g, inner_steps=H),
}


def adam(net: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(net.parameters(), 3e-3)


def whole(net: nn.Module) -> torch.Tensor:
    """All parameters, gathered in the site."""
    parts = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in net.parameters()]
    return torch.cat([part.detach().reshape(-1) for part in parts])


def fsdp2(mesh: DeviceMesh) -> nn.Module:
    net = model(DTYPE)
    for layer in net:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    return fully_shard(net, mesh=mesh)


def hsdp(mesh: DeviceMesh) -> nn.Module:
    """Replicas of one shard each."""
    return fully_shard(model(DTYPE), mesh=mesh)


def tensor_parallel(mesh: DeviceMesh) -> nn.Module:
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    return parallelize_module(model(DTYPE), mesh, plan)


def compiled(mesh: DeviceMesh) -> Any:
    return torch.compile(fsdp2(mesh), backend="eager")


SHARDED = {"fsdp2": fsdp2, "hsdp": hsdp, "tp": tensor_parallel, "compiled": compiled}


def data(site: int, place: int, step: int, parallel: str) -> tuple[torch.Tensor, torch.Tensor]:
    """What a rank of a site has of a step; with tensor parallel both have all of it."""
    parts = [batch(2 * site + shard, step, DTYPE, 8 + 4 * site) for shard in range(2)]
    if parallel == "tp":
        return torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts])
    return parts[place]


def local_step(
    trainer: ft.Trainer, net: Any, site: int, place: int, parallel: str, pieces: int = 1
) -> None:
    x, y = data(site, place, trainer.steps, parallel)
    trainer.inner.zero_grad()
    for piece in range(pieces):
        if pieces > 1:
            net.set_requires_gradient_sync(piece == pieces - 1)
        part = slice(piece * len(y) // pieces, (piece + 1) * len(y) // pieces)
        (nn.functional.cross_entropy(net(x[part]), y[part]) / pieces).backward()
    trainer.step(samples=0 if parallel == "tp" and place else len(y))


def alone(kind: str, site: int, across: dist.ProcessGroup) -> torch.Tensor:
    """The same training by one rank for each site, with the whole model."""
    net = model(DTYPE)
    trainer = METHODS[kind](net, adam(net), across)
    for step in range(ROUNDS * H):
        x, y = data(site, 0, step, "tp")
        trainer.inner.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        trainer.step(samples=len(y))
    return whole(net)


def parity() -> None:
    """Two sites of two ranks against two members, by every way to shard."""
    rank, _ = join("gloo")
    mesh = init_device_mesh("cpu", (2, 2, 1), mesh_dim_names=("site", "shard", "one"))
    site, place = divmod(rank, 2)
    across, within = mesh["site"], mesh["shard"]
    start = torch.cat([p.detach().reshape(-1) for p in model(DTYPE).parameters()])
    want = {kind: alone(kind, site, across.get_group()) for kind in METHODS}
    runs = [("fsdp2", kind, 1) for kind in METHODS]
    runs += [(how, "diloco", 1) for how in ("hsdp", "tp", "compiled")]
    runs += [("tp", "streaming", 1), ("hsdp", "eager", 1), ("fsdp2", "diloco", 2)]
    for parallel, kind, pieces in runs:
        net = SHARDED[parallel](mesh["shard", "one"] if parallel == "hsdp" else within)
        trainer = METHODS[kind](net, adam(net), ft.Site(across, within))
        for step in range(ROUNDS * H):
            local_step(trainer, net, site, place, parallel, pieces)
            if kind == "streaming" and step == H + 2:
                # With a fragment in flight; each rank has a state of its own.
                trainer.load_state_dict(copy.deepcopy(trainer.state_dict()))
        error = float((whole(net) - want[kind]).abs().max())
        assert error <= 1e-12, (parallel, kind, pieces, error)
        assert float((want[kind] - start).abs().max()) > 1e-3
        assert trainer.last is not None
        # A site weighs what all of its ranks have done.
        assert trainer.last.weights == {0: 16 * H, 1: 24 * H}, trainer.last.weights
        trainer.finish()
        shards = trainer.shared_parameters().values()
        assert sum(part.numel() for part in shards) < len(start) or parallel == "hsdp"
    leave()


class Broken:
    """A mean that has arrived elsewhere, and not here."""

    def __init__(self, under_way: Any) -> None:
        self.under_way = under_way

    def wait(self) -> None:
        self.under_way.wait()
        raise PeerLost("a loss that this rank alone has seen")


def commit() -> None:
    """A rank without a mean: its site mixes nothing in, keeps its progress, and goes on."""
    rank, _ = join("gloo")
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("site", "shard"))
    site, place = divmod(rank, 2)
    # The shard of all sites, as where a loss is an error; then that of one site.
    for kind, broken in (("diloco", (1, 3)), ("eager", (1, 3)), ("diloco", (3,))):
        net = fsdp2(mesh["shard"])
        trainer = METHODS[kind](net, adam(net), ft.Site(mesh["site"], mesh["shard"]))
        begin = trainer._begin_mean
        if rank in broken:
            trainer._begin_mean = lambda *of, begin=begin: Broken(begin(*of))  # type: ignore
        shared = [tensor.clone() for tensor in trainer.shared_parameters().values()]
        # An eager mean is waited for a round later.
        rounds = 2 if kind == "eager" else 1
        for _ in range(rounds * H - 1):
            local_step(trainer, net, site, place, "fsdp2")
        drops = site in {other // 2 for other in broken}
        if drops:
            text = "this rank alone" if rank in broken else "rank 1 of this site has no mean"
            step = functools.partial(local_step, trainer, net, site, place, "fsdp2")
            expect(PeerLost, text, step)
        else:
            local_step(trainer, net, site, place, "fsdp2")
        trainer._begin_mean = begin  # type: ignore[method-assign]
        kept = trainer.shared_parameters().values()
        same = all(torch.equal(a, b) for a, b in zip(shared, kept, strict=True))
        assert same == drops
        if not drops:
            continue
        # Progress is in the parameters, and the samples are this rank's again.
        parts = [p.to_local().detach() for p in net.parameters()]
        moved = [float((a - b).abs().max()) for a, b in zip(shared, parts, strict=True)]
        assert max(moved) > 0.01, moved
        samples = 8 + 4 * site
        assert float(trainer._own["samples"][0]) == rounds * samples * H
        if len(broken) == 2:
            for _ in range(H):
                local_step(trainer, net, site, place, "fsdp2")
            trainer.finish()
            assert trainer.last is not None
            rows = [torch.zeros_like(whole(net)) for _ in range(4)]
            dist.all_gather(rows, whole(net))
            assert all(torch.equal(row, rows[0]) for row in rows)
    leave()


class Other:
    """A mean that is another one than this rank's replicas have."""

    def __init__(self, under_way: Any) -> None:
        self.under_way = under_way

    def wait(self) -> mean.Mean:
        arrived: mean.Mean = self.under_way.wait()
        return replace(arrived, value=arrived.value + 1)


def alike() -> None:
    """What is not finite counts nowhere in its site, and replicas have the first one's mean."""
    rank, _ = join("gloo")
    mesh = init_device_mesh("cpu", (2, 2, 1), mesh_dim_names=("site", "shard", "one"))
    site, place = divmod(rank, 2)
    here = ft.Site(mesh["site"], mesh["shard"])
    net = fsdp2(mesh["shard"])
    trainer = METHODS["diloco"](net, adam(net), here)
    for step in range(2 * H):
        if rank == 3 and step == H - 1:
            with torch.no_grad():
                net[0].weight.to_local()[0, 0] = float("nan")
        with warnings.catch_warnings(record=True):
            local_step(trainer, net, site, place, "fsdp2")
        assert trainer.last is None or trainer.steps > H or trainer.last.not_finite == (1,)
    assert trainer.last is not None
    assert trainer.last.weights == {0: 16 * H, 1: 24 * H}
    sharded = whole(net)
    net = hsdp(mesh["shard", "one"])
    trainer = METHODS["diloco"](net, adam(net), here)
    begin = trainer._begin_mean
    if place:
        trainer._begin_mean = lambda *of: Other(begin(*of))  # type: ignore[method-assign]
    for _ in range(H):
        local_step(trainer, net, site, place, "hsdp")
    for mine in (sharded, whole(net)):
        rows = [torch.zeros_like(mine) for _ in range(4)]
        dist.all_gather(rows, mine)
        assert all(torch.equal(row, rows[0]) for row in rows)
        assert bool(mine.isfinite().all())
        assert float(mine.abs().max()) < 1
    leave()


def refused() -> None:
    """What cannot work is told, on all ranks of a site."""
    rank, _ = join("gloo")
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("site", "shard"))
    site, place = divmod(rank, 2)
    across, within = mesh["site"], mesh["shard"]
    net = fsdp2(within)
    here = ft.Site(across, within)
    expect(ValueError, "holdfast.ft.Site(across, within)", lambda: ft.DiLoCo(net, adam(net)))
    expect(ValueError, "2 dimensions", lambda: ft.Site(across, mesh))
    expect(ValueError, "in common", lambda: ft.Site(dist.group.WORLD, within))
    expect(ValueError, "within = a int", lambda: ft.Site(across, 3))
    expect(ValueError, "pace = True", lambda: ft.DiLoCo(net, adam(net), here, pace=True))
    trainer = ft.DiLoCo(net, adam(net), here)
    ledger = ft.DataLedger(100, lease=10)
    expect(ValueError, "with a Site", lambda: trainer.attach(ledger))
    expect(ValueError, "save_run()", lambda: ft.save_run("saved", trainer, net))
    spread = fully_shard(model(DTYPE))
    expect(ValueError, "is spread over", lambda: ft.DiLoCo(spread, adam(spread), here))
    if rank == 2:
        with torch.no_grad():
            net[0].bias.to_local().add_(1)
    odd = "the model's parameter values of rank"
    text = "rank 0 of this site has other shards" if place else odd
    trainer = ft.DiLoCo(net, adam(net), here)
    expect(ValueError, text, lambda: local_step(trainer, net, site, place, "fsdp2"))
    leave()


def lives() -> None:
    """A rank of site 1 dies when its exchange has begun; AGAIN: both ranks of it come back."""
    torch.set_num_threads(1)
    site, place, again = (int(os.environ[name]) for name in ("SITE", "PLACE", "AGAIN"))
    method = f"file://{os.environ['MEETING_FILE']}-{site}-{again}"
    dist.init_process_group(os.environ["WITHIN"], init_method=method, rank=place, world_size=2)
    net = model()
    fully_shard(net)

    def across() -> holdfast.Group:
        # The ranks of a site come in at other boundaries of the others.
        time.sleep(0.4 * again * place)
        if url := os.environ.get("URL"):
            return holdfast.join(f"{url}/shard{place}", min_peers=2)
        return holdfast.init(rank=site, size=2, name=f"shard{place}")

    here = ft.Site(across, dist.group.WORLD)
    trainer = METHODS[os.environ["METHOD"]](net, adam(net), here)
    seen = torch.zeros(1, dtype=torch.int64)
    view = trainer.advance({"seen": seen}, each_round=True)
    assert bool(view.joined) == bool(again)
    end, longest, before = MOST_ROUNDS * H, 0.0, time.monotonic()
    if again:
        end = trainer.steps + 3 * H
    while trainer.steps < end:
        if (site, place, again) == (1, 1, 0) and trainer.steps == 2 * H + 1:
            end_when_begun(trainer)
        seen += 1
        x, y = batch(2 * site + place, trainer.steps)
        trainer.inner.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        try:
            trainer.step(samples=len(y))
        except PeerLost:
            # With on_peer_loss="raise"; in a site that has lost a rank this is an error, too.
            trainer.advance({"seen": seen}, each_round=True)
        longest, before = max(longest, time.monotonic() - before), time.monotonic()
        if trainer.view is not view:
            view = trainer.view
            assert view is not None
            end = trainer.steps + 3 * H if view.joined else end
        if trainer.steps == 4 * H and not again:
            print("ALONE", *view.ranks, flush=True)
        time.sleep(0.005)
    trainer.finish()
    flat = torch.cat([p.to_local().detach().reshape(-1) for p in net.parameters()])
    found = {
        "bits": zlib.crc32(flat.numpy().tobytes()),
        "shared": zlib.crc32(bits(trainer)),
        "steps": trainer.steps,
        "seen": int(seen),
        "members": sorted(trainer.last.weights) if trainer.last else [],
    }
    print("END", json.dumps(found), flush=True)
    print("LONGEST", longest, flush=True)
    here.across.leave()
    leave()
