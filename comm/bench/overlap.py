"""``holdfast bench --overlap``: asynchronous ops beside a computation.

As a module, ``python -m holdfast.comm.bench.overlap CONFIG RANK SIZE``: one rank of it. Each rank
starts four ops, computes for about as long as the slowest contestant communicates, and waits.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from holdfast import __version__
from holdfast.comm.bench.meeting import meeting, slowest
from holdfast.comm.bench.plan import Case
from holdfast.comm.bench.report import Entry, size_text
from holdfast.options import Options

HEADER = (
    f"{'ranks':>5} {'collective':<14} {'size':>6} {'dtype':<8} {'contestant':<14} "
    f"{'compute ms':>10} {'ops ms':>8} {'both ms':>8} {'hidden %':>8} {'slowed %':>8}"
)
COLLECTIVES = ("all_reduce", "broadcast", "all_gather", "reduce_scatter")
_OPS = 4
_SIDE = 192  # of the matrices, which stay in the cache


@dataclass(slots=True)
class Row(Entry):
    """One contestant in one case; medians of the slowest rank, in seconds.

    Parameters
    ----------
    ranks, collective, size, dtype, name
        As in :class:`holdfast.comm.bench.report.Entry`; `size` of each of the four ops.
    compute, ops, both : float
        The computation alone, the ops alone, and from the first start to the last end of both.
    beside : float
        The computation while the ops are under way.
    is_last : bool
        Whether the case has no further row.
    """

    compute: float
    ops: float
    both: float
    beside: float
    is_last: bool

    @property
    def hidden(self) -> float:
        """Part of the ops' time that the computation hides, 0 to 1."""
        return min(1.0, max(0.0, (self.compute + self.ops - self.both) / self.ops))

    @property
    def slowed(self) -> float:
        """Part by which the computation takes longer beside the ops."""
        return self.beside / self.compute - 1

    def line(self) -> str:
        """Return it as a line of the table."""
        return (
            f"{self.ranks:>5} {self.collective:<14} {size_text(self.size):>6} {self.dtype:<8} "
            f"{self.name:<14} {self.compute * 1e3:>10.2f} {self.ops * 1e3:>8.2f} "
            f"{self.both * 1e3:>8.2f} {self.hidden * 100:>8.0f} {self.slowed * 100:>8.0f}"
        )

    def as_json(self) -> dict[str, object]:
        """Return what a program reads; times in microseconds."""
        return {
            **self.identity(),
            "compute_us": round(self.compute * 1e6, 1),
            "ops_us": round(self.ops * 1e6, 1),
            "both_us": round(self.both * 1e6, 1),
            "hidden": round(self.hidden, 3),
            "slowed": round(self.slowed, 3),
            "version": __version__,
        }


def _starter(case: Case, group: Any, ranks: int) -> Callable[[], list[Any]]:
    import torch
    import torch.distributed as dist

    dtype = getattr(torch, case.dtype)
    count = max(ranks, case.size // dtype.itemsize // ranks * ranks)
    whole = [torch.ones(count).to(dtype) for _ in range(_OPS)]
    part = [torch.ones(count // ranks).to(dtype) for _ in range(_OPS)]
    one: dict[str, Callable[[int], Any]] = {
        "all_reduce": lambda i: dist.all_reduce(
            whole[i], op=dist.ReduceOp.MAX, group=group, async_op=True
        ),
        "broadcast": lambda i: dist.broadcast(whole[i], 0, group=group, async_op=True),
        "all_gather": lambda i: dist.all_gather_into_tensor(
            whole[i], part[i], group=group, async_op=True
        ),
        "reduce_scatter": lambda i: dist.reduce_scatter_tensor(
            part[i], whole[i], op=dist.ReduceOp.MAX, group=group, async_op=True
        ),
    }
    start = one[case.collective]
    return lambda: [start(i) for i in range(_OPS)]


def _compute(times: int) -> float:
    import torch

    a = torch.full((_SIDE, _SIDE), 1.0 / _SIDE)
    b = torch.full((_SIDE, _SIDE), 1.0)
    began = time.perf_counter()
    for _ in range(times):
        torch.mm(a, b, out=b)
    return time.perf_counter() - began


def _alone(start: Callable[[], list[Any]]) -> float:
    began = time.perf_counter()
    for work in start():
        work.wait()
    return time.perf_counter() - began


def _both(start: Callable[[], list[Any]], times: int) -> tuple[float, float]:
    began = time.perf_counter()
    works = start()
    beside = _compute(times)
    for work in works:
        work.wait()
    return time.perf_counter() - began, beside


def _measure(
    case: Case, starters: dict[str, Callable[[], list[Any]]], rounds: int, ranks: int
) -> list[Row]:
    import torch.distributed as dist

    def alone(start: Callable[[], list[Any]]) -> float:
        dist.barrier()
        return slowest([_alone(start)])[0]

    longest = 0.0
    for start in starters.values():
        alone(start)
        longest = max(longest, statistics.median(alone(start) for _ in range(3)))
    each = slowest([statistics.median(_compute(20) for _ in range(3)) / 20])[0]
    times = max(1, int(longest / each))
    rows = []
    for name, start in starters.items():
        measured = []
        for _ in range(rounds):
            dist.barrier()
            compute = slowest([_compute(times)])[0]
            ops = alone(start)
            dist.barrier()
            measured.append([compute, ops, *slowest(_both(start, times))])
        medians = [statistics.median(column) for column in zip(*measured, strict=True)]
        compute, ops, both, beside = medians
        at = (ranks, case.collective, case.size, case.dtype, name)
        rows.append(Row(*at, compute, ops, both, beside, name == [*starters][-1]))
    return rows


def _groups(config: dict[str, Any]) -> dict[str, Any]:
    import torch.distributed as dist

    groups: dict[str, Any] = {}
    for transport in config["transports"]:
        options = Options(transports=(transport,))
        groups[f"holdfast/{transport}"] = dist.new_group(backend="holdfast", pg_options=options)
    if "gloo" in config["peers"]:
        groups["gloo"] = dist.new_group(backend="gloo")
    return groups


def main() -> int:
    """Run all cases; the arguments are the configuration's file, rank and size."""
    config = json.loads(Path(sys.argv[1]).read_text())
    rank, ranks = int(sys.argv[2]), int(sys.argv[3])
    with meeting(config["folder"], rank, ranks), Path(config["rows"]).open("a") as file:
        groups = _groups(config)
        for collective, size, dtype in config["cases"]:
            case = Case(collective, size, dtype)
            starters = {name: _starter(case, group, ranks) for name, group in groups.items()}
            rows = _measure(case, starters, config["rounds"], ranks)
            if rank == 0:
                file.writelines(json.dumps(astuple(row)) + "\n" for row in rows)
                file.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
