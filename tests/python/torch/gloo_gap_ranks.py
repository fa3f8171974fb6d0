"""What gloo gets wrong or refuses: each case is right on Holdfast, and shown to fail on gloo."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor
from torch_world import join

Case = Callable[[int, int], bool]


def strided(rows: int, columns: int, value: float) -> Tensor:
    t = torch.full((columns, rows), value).t()
    assert not t.is_contiguous()
    return t


def non_contiguous_all_reduce(rank: int, size: int) -> bool:
    base = torch.zeros(4, 6)
    part = base[:, ::2]
    part.copy_(torch.arange(12.0).reshape(4, 3) * (rank + 1))
    dist.all_reduce(part)
    total = sum(range(1, size + 1))
    right = torch.equal(part, torch.arange(12.0).reshape(4, 3) * total)
    return right and bool((base[:, 1::2] == 0).all())


def non_contiguous_broadcast(rank: int, size: int) -> bool:
    base = torch.zeros(4, 6)
    part = base[:, ::2]
    part.copy_(torch.arange(12.0).reshape(4, 3) + rank)
    dist.broadcast(part, src=1)
    right = torch.equal(part, torch.arange(12.0).reshape(4, 3) + 1)
    return right and bool((base[:, 1::2] == 0).all())


def uneven_all_to_all(rank: int, size: int) -> bool:
    inputs = [torch.full((rank + to + 1,), float(10 * rank + to)) for to in range(size)]
    outputs = [torch.empty(source + rank + 1) for source in range(size)]
    dist.all_to_all(outputs, inputs)
    return all(bool((t == 10 * s + rank).all()) for s, t in enumerate(outputs))


def uneven_all_gather(rank: int, size: int) -> bool:
    outputs = [torch.empty(r + 1) for r in range(size)]
    dist.all_gather(outputs, torch.full((rank + 1,), float(rank)))
    return all(bool((t == r).all()) for r, t in enumerate(outputs))


def sums_of(dtype: torch.dtype) -> Case:
    def case(rank: int, size: int) -> bool:
        t = torch.full((5,), float(rank + 1)).to(dtype)
        dist.all_reduce(t)
        return bool((t.float() == sum(range(1, size + 1))).all())

    return case


def premultiplied_sum(rank: int, size: int) -> bool:
    t = torch.full((5,), float(rank + 1))
    dist.all_reduce(t, op=dist._make_nccl_premul_sum(3.0))
    return bool((t == 3 * sum(range(1, size + 1))).all())


CASES: dict[str, Case] = {
    "non_contiguous_all_reduce": non_contiguous_all_reduce,
    "non_contiguous_broadcast": non_contiguous_broadcast,
    "uneven_all_to_all": uneven_all_to_all,
    "uneven_all_gather": uneven_all_gather,
    "int16": sums_of(torch.int16),
    "fp8_e4m3": sums_of(torch.float8_e4m3fn),
    "fp8_e5m2": sums_of(torch.float8_e5m2),
    "premultiplied_sum": premultiplied_sum,
}


def run(backend: str, name: str) -> bool:
    rank, size = join(backend)
    return CASES[name](rank, size)


def holdfast(name: str) -> None:
    assert run("holdfast", name), "wrong values"
    dist.destroy_process_group()


def gloo(name: str) -> None:
    """Print what becomes of it; gloo's failures may take the process group along."""
    import os

    try:
        outcome = "right" if run("gloo", name) else "wrong values"
    except (RuntimeError, ValueError, TypeError) as error:
        outcome = f"refused: {error}"
    print("OUTCOME", outcome.splitlines()[0], flush=True)
    os._exit(0)  # its peers may wait for it no more


for _name in CASES:
    globals()[f"holdfast_{_name}"] = lambda n=_name: holdfast(n)
    globals()[f"gloo_{_name}"] = lambda n=_name: gloo(n)
