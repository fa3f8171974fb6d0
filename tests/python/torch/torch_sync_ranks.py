"""What ranks do whose torch state cannot be shared, or holds no tensors at all."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch_edge_ranks import cpu_backend
from torch_world import check, expect, join

import holdfast


class Wrapper(Tensor):
    """A tensor that stands for others: it has a shape, a dtype, a device, and no memory."""

    @staticmethod
    def __new__(cls, inner: Tensor) -> Wrapper:
        return Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    @classmethod
    def __torch_dispatch__(cls, *_: Any) -> None:
        raise AssertionError("nobody computes with it")


def without_memory() -> dict[str, Tensor]:
    """Tensors of every kind that have elements and no address."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    freed = torch.ones(9)[1:]
    freed.untyped_storage().resize_(0)
    whole = torch.ones(8, 8)
    return {
        "DTensor": distribute_tensor(whole, mesh, [Shard(0)]),
        "DTensor, with gaps": distribute_tensor(whole, mesh, [Replicate()]).t()[:, 1:],
        "Parameter of a DTensor": nn.Parameter(distribute_tensor(whole, mesh, [Shard(0)])),
        "Wrapper": Wrapper(whole),
        "functional": torch._to_functional_tensor(whole),
        "freed": freed,
    }


def works_on(group: holdfast.Group | None = None) -> None:
    """What was refused leaves the group as it was."""
    size = dist.get_world_size()
    total = torch.ones(3)
    if group is None:
        dist.all_reduce(total)
    else:
        group.all_reduce(total)
    check(total, torch.full((3,), float(size)), "the next op")


def told(call: Callable[[], object], *words: str) -> None:
    try:
        call()
    except holdfast.ConfigError as error:
        for word in words:
            assert re.search(word, str(error)), (word, str(error))
    else:
        raise AssertionError(f"was not refused; should say {words}")


def sharded_states() -> None:
    """Refused on all ranks alike, whoever has them, with the tensor's name and what to do."""
    rank, _ = join()
    plain = nn.Linear(8, 8)
    model = fully_shard(copy.deepcopy(plain))
    told(lambda: holdfast.sync(model), r"\['weight'\]", "Shard", "distributed.checkpoint")
    works_on()

    # The model itself may be shared; what the optimiser keeps of another one may not.
    model(torch.ones(2, 8)).sum().backward()
    optimizer = torch.optim.Adam(model.parameters())
    optimizer.step()
    state = optimizer.state_dict()["state"]
    assert isinstance(state[0]["exp_avg"], DTensor)
    told(lambda: holdfast.sync(plain, optimizer), "object 1", "exp_avg", "Shard")
    works_on()

    # Of one rank only, as a newcomer's optimiser is empty: the others must not wait for it.
    own = optimizer if rank == 1 else torch.optim.Adam(plain.parameters())
    words = ("exp_avg", "Shard") if rank == 1 else ("rank 1", "exp_avg", "Shard")
    told(lambda: holdfast.sync(own), *words)
    words = ("'a'", "object") if rank == 1 else ("rank 1", "'a'", "object")
    told(lambda: holdfast.sync({"a": object() if rank == 1 else 1}), *words)
    works_on()

    # What all ranks have whole can be given by hand, and comes back in place.
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    whole = distribute_tensor(torch.full((4,), 1.0), mesh, [Replicate()])
    told(lambda: holdfast.sync({"scale": whole}), r"\['scale'\]", "Replicate", r"to_local\(\)")
    whole.to_local().mul_(rank + 5)
    holdfast.sync({"scale": whole.to_local()})
    check(whole.to_local(), torch.full((4,), 5.0), "replicated")
    grid = init_device_mesh("cpu", (2, 1), mesh_dim_names=("replicas", "shards"))
    replica = fully_shard(copy.deepcopy(plain), mesh=grid)
    told(lambda: holdfast.sync(replica), "Replicate.*Shard", "replicas of HSDP")
    parts = {name: t.to_local() for name, t in replica.state_dict().items()}
    parts["bias"].detach().fill_(rank + 7)
    holdfast.sync(parts, group=grid.get_group("replicas"))
    local = replica.bias.to_local().detach()
    check(local, torch.full((8,), 7.0), "replicas of one shard")
    dist.destroy_process_group()


def tensors_without_memory() -> None:
    """Refused by every way in; never an address that nothing lies at."""
    rank, size = join()
    backend = cpu_backend()
    with holdfast.init() as group:
        for kind, odd in without_memory().items():
            out = torch.ones(odd.shape)
            many = [torch.ones(odd.shape) for _ in range(size)]
            whole = torch.ones(size * odd.numel())
            calls: tuple[Callable[[], object], ...] = (
                lambda odd=odd: backend.allreduce([odd]),
                lambda odd=odd: backend.broadcast([odd]),
                lambda odd=odd, many=many: backend.allgather([many], [odd]),
                lambda odd=odd, whole=whole: backend._allgather_base(whole, odd),
                lambda odd=odd, whole=whole: backend._reduce_scatter_base(odd, whole),
                lambda odd=odd, out=out: backend.alltoall_base(out, odd, [], []),
                lambda odd=odd: backend.send([odd], 1 - rank, 0),
                lambda odd=odd: backend.recv([odd], 1 - rank, 0),
                lambda odd=odd: group.all_reduce(odd),
                lambda odd=odd: group.all_reduce(odd, async_op=True),
                lambda odd=odd: group.broadcast(odd),
                lambda odd=odd, many=many: group.all_gather(many, odd),
                lambda odd=odd, whole=whole: group.all_gather(whole, odd),
                lambda odd=odd, whole=whole: group.reduce_scatter(odd, whole),
                lambda odd=odd, out=out: group.all_to_all(out, odd),
                lambda odd=odd, out=out: group.all_reduce(out, codec="int8", residual=odd),
                lambda odd=odd: group.send(odd, 1 - rank),
                lambda odd=odd: group.sync({"odd": odd}),
                lambda odd=odd: group.sync({"odd": odd if rank == 1 else torch.ones(odd.shape)}),
            )
            print("refuse", kind, flush=True)
            for call in calls:
                expect(holdfast.ConfigError, "no memory of its own", call)
            works_on()
            works_on(group)
        told(lambda: group.all_reduce(Wrapper(torch.ones(2))), "a Wrapper", "accepted", "plain")
    # Where there are no elements, there is nothing to have an address.
    dist.all_reduce(torch.empty(0))
    dist.destroy_process_group()


def no_tensors() -> None:
    """Step until rank 1 has come back; states without a byte of tensors are shared all along."""
    rank, _ = join()
    progress: dict[str, Any] = {"step": 0, "loss": 0.5, "names": ["a"], "came": 0}
    empty: dict[str, Any] = {}
    hollow = {"nothing": torch.empty(0)}
    print("ready", flush=True)
    while progress["came"] == 0:
        view = holdfast.advance()
        if view.joined:
            holdfast.sync(empty)
            holdfast.sync(hollow)
            before = int(progress["step"])
            report = holdfast.sync(progress)
            assert view.joined == (1,), view
            assert (report.bytes, report.fetched) == (0, 0), report
            assert progress["step"] > 0
            assert (progress["step"] == before) == (rank != 1), (before, progress)
            assert progress["loss"] == 0.5
            progress["came"] += 1
        progress["step"] += 1
        progress["names"] = [*progress["names"][-3:], str(progress["step"])]
        dist.all_reduce(torch.ones(1))
    print("END", progress["step"], progress["names"], flush=True)
    dist.destroy_process_group()


def no_arrays() -> None:
    """As above with a Group, whose `advance()` shares what was given before."""
    with holdfast.init() as group:
        report = group.sync({})
        assert (report.chunks, report.bytes) == (0, 0), report
        print("ready", flush=True)
        came = False
        while not came:
            came = bool(group.advance().joined)
            group.all_reduce(np.ones(1))
        print("END", flush=True)
