"""What a rank of `tests/bench/slow_link.py` does: steps of DDP, and plain sums of many sizes.

All contestants are in the same processes and take turns. Bytes are those that the rank's links
counted, headers included. The time of a turn is the slowest rank's.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import holdfast
from holdfast import _process

if TYPE_CHECKING:
    from torch.nn.parallel import DistributedDataParallel

_SENT = re.compile(
    r'^holdfast_link_bytes_total\{[^}]*direction="sent"[^}]*transport="tcp"[^}]*\} (\S+)',
    re.MULTILINE,
)
# A turn of plain sums is about so long.
TURN_S = 0.03


def sent(options: holdfast.Options) -> float:
    text = _process.node(options).metrics_text()
    return sum(float(found) for found in _SENT.findall(text))


def tell(rank: int, **row: Any) -> None:
    if rank == 0:
        print("ROW", json.dumps(row), flush=True)


def over_ranks(group: holdfast.Group, value: float, op: str) -> float:
    """The same on all ranks."""
    mine = np.array([value])
    group.all_reduce(mine, op=op)
    return float(mine[0])


class Steps:
    """One way of training the same model.

    The group's sums are encoded as `codec` says; with `hook` it is PowerSGD's that reduces. With
    `half` the model, and so its gradients, are bfloat16.
    """

    def __init__(self, codec: str, rank: int, hook: int = 0, *, half: bool = False) -> None:
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel

        from holdfast import compress

        self.options = dataclasses.replace(holdfast.Options.from_env(), codec=codec)
        group = dist.new_group(backend="holdfast", pg_options=self.options)
        whole, self._batch = (x.bfloat16() if half else x for x in (model(), batch(rank)))
        self.ddp: DistributedDataParallel = DistributedDataParallel(whole, process_group=group)
        if hook:
            compress.register(self.ddp, compress.PowerSGD(hook, group=group))

    def run(self, count: int) -> None:
        for _ in range(count):
            self.ddp(self._batch).square().mean().backward()

    def compute(self, count: int) -> None:
        """The same without communication."""
        with self.ddp.no_sync():
            self.run(count)

    def turn(self, group: holdfast.Group, count: int, call: Callable[[int], None]) -> list[float]:
        """Seconds of a step, and bytes that a rank sent for it."""
        self.ddp.zero_grad()
        group.barrier()
        before, began = sent(self.options), time.perf_counter()
        call(count)
        took = time.perf_counter() - began
        out = sent(self.options) - before
        return [over_ranks(group, took, "max") / count, over_ranks(group, out, "avg") / count]


def model() -> Any:
    """About a million parameters a layer."""
    import torch

    torch.manual_seed(0)
    layers = int(os.environ["LAYERS"])
    return torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(layers)])


def batch(rank: int) -> Any:
    import torch

    return torch.randn(8, 1024, generator=torch.Generator().manual_seed(rank))


def train() -> None:
    """A row for each way: seconds and bytes of a step, by turns."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    rounds, count = int(os.environ["ROUNDS"]), int(os.environ["TURN_STEPS"])
    with holdfast.init() as group:
        store = dist.FileStore(os.environ["MEETING_FILE"], group.size)
        dist.init_process_group("holdfast", store=store, rank=group.rank, world_size=group.size)
        ways = {"float32": Steps("", group.rank)}
        codecs = list(filter(None, os.environ["CODECS"].split(",")))
        for codec in codecs:
            if not codec.startswith("bfloat"):
                ways[codec] = Steps(codec, group.rank)
        ways["PowerSGD, r 4"] = Steps("", group.rank, hook=4)
        if any(codec.startswith("bfloat") for codec in codecs):
            ways["bfloat16"] = Steps("", group.rank, half=True)
        for codec in codecs:
            if codec.startswith("bfloat"):
                ways[f"bfloat16, {codec}"] = Steps(codec, group.rank, half=True)
        computing = ["compute", *(["compute, bfloat16"] if "bfloat16" in ways else [])]
        turns: dict[str, list[list[float]]] = {name: [] for name in [*computing, *ways]}
        for way in ways.values():
            way.run(2)  # DDP composes its buckets anew after the first
        for _ in range(rounds):
            for name, dtype in zip(computing, ("float32", "bfloat16"), strict=False):
                plain = ways[dtype]
                turns[name].append(plain.turn(group, count, plain.compute))
            for name, way in ways.items():
                turns[name].append(way.turn(group, count, way.run))
        for name, taken in turns.items():
            seconds, out = (statistics.median(column) for column in zip(*taken, strict=True))
            tell(group.rank, name=name, seconds=seconds, bytes=out)
        dist.destroy_process_group()


def sums() -> None:
    """A row for each size: seconds of an all_reduce with each codec and without."""
    rounds = int(os.environ["ROUNDS"])
    codecs: list[str | None] = [None, *filter(None, os.environ["CODECS"].split(","))]
    with holdfast.init() as group:
        for size in map(int, os.environ["SIZES"].split(",")):
            data = np.random.default_rng(group.rank).standard_normal(size // 4, dtype=np.float32)
            calls = {codec: _calls(group, data, codec) for codec in codecs}
            times: dict[str | None, list[float]] = {codec: [] for codec in codecs}
            for _ in range(rounds):
                for codec in codecs:
                    times[codec].append(_turn(group, data, codec, calls[codec]))
            taken = {codec or "float32": statistics.median(times[codec]) for codec in codecs}
            tell(group.rank, size=size, seconds=taken)


def _turn(group: holdfast.Group, data: Any, codec: str | None, calls: int) -> float:
    """Seconds of a call."""
    for _ in range(2):
        group.all_reduce(data, op="avg", codec=codec)
    began = time.perf_counter()
    for _ in range(calls):
        group.all_reduce(data, op="avg", codec=codec)
    return over_ranks(group, time.perf_counter() - began, "max") / calls


def _calls(group: holdfast.Group, data: Any, codec: str | None) -> int:
    """Calls that fill a turn; the same on all ranks."""
    return max(1, min(200, int(TURN_S / _turn(group, data, codec, 2))))
