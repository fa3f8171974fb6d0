"""One rank of the benchmark: ``python -m holdfast.comm.bench.rank CONFIG [RANK SIZE]``.

Started by the command, or, without rank and size, by mpiexec when MPI takes part. Rank 0 writes
the rows.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from holdfast import _transports
from holdfast.comm.bench.contestants import (
    Contestant,
    GroupContestant,
    MpiContestant,
    TorchContestant,
)
from holdfast.comm.bench.meeting import meeting, slowest
from holdfast.comm.bench.plan import Case
from holdfast.comm.bench.roofline import MemoryFloor, WireFloor
from holdfast.comm.bench.timing import measure
from holdfast.options import Options


def _place(config: dict[str, Any]) -> tuple[int, int, Any]:
    """Return rank, size and, where it takes part, MPI's world."""
    if not config["mpi"]:
        return int(sys.argv[2]), int(sys.argv[3]), None
    from mpi4py import MPI

    return MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size, MPI.COMM_WORLD


def _contestants(config: dict[str, Any], rank: int, ranks: int, world: Any) -> list[Contestant]:
    import torch.distributed as dist

    import holdfast

    found: list[Contestant] = []
    inside_hosts = [row.name for row in _transports.rows() if row.inside_hosts]
    for transport in config["transports"]:
        for algorithm in config["algorithms"] or [""]:
            options = Options(transports=(transport,), algorithm=algorithm)
            name = "/".join(part for part in ("holdfast", transport, algorithm) if part)
            # Beside each other, so that their turns are: memory of the pool, and any other.
            kinds = (False, True) if config["pool"] and transport in inside_hosts else (False,)
            if config["api"] == "torch":
                group = dist.new_group(backend="holdfast", pg_options=options)
            else:
                store = f"file://{config['folder']}/groups"
                group = holdfast.init(store, rank, ranks, options=options, name=name)
            for pooled in kinds:
                called = f"{name}/pool" if pooled else name
                if config["api"] == "torch":
                    found.append(TorchContestant(called, group, rank, ranks, pooled=pooled))
                else:
                    found.append(GroupContestant(called, group, pooled=pooled))
    if "gloo" in config["peers"]:
        found.append(TorchContestant("gloo", dist.new_group(backend="gloo"), rank, ranks))
    if config["roofline"]:
        found += _floors(config["transports"], rank, ranks)
    if world is not None:
        found.append(MpiContestant(config["mpi"], world))
    return found


def _floors(transports: list[str], rank: int, ranks: int) -> list[Contestant]:
    import torch
    import torch.distributed as dist

    def share(port: int) -> list[int]:
        ports = [torch.zeros(1, dtype=torch.int64) for _ in range(ranks)]
        dist.all_gather(ports, torch.tensor([port]))
        return [int(p) for p in ports]

    floors: list[Contestant] = []
    inside = [row.inside_hosts for row in _transports.rows() if row.name in transports]
    if True in inside:
        floors.append(MemoryFloor(rank, ranks))
    if False in inside:
        floors.append(WireFloor(rank, ranks, share))
    return floors


def main() -> int:
    """Run all cases; the configuration is the file named by the first argument."""
    config = json.loads(Path(sys.argv[1]).read_text())
    rank, ranks, world = _place(config)
    import torch.distributed as dist

    with (
        meeting(config["folder"], rank, ranks),
        Path(config["rows"]).open("a") as rows,
    ):
        contestants = _contestants(config, rank, ranks, world)
        for collective, size, dtype in config["cases"]:
            case = Case(collective, size, dtype)
            for name, times in measure(
                contestants, case, config["rounds"], slowest, dist.barrier
            ).items():
                if rank != 0:
                    continue
                row = [ranks, collective, size, dtype, name]
                rows.write(json.dumps([*row, times.mean, times.p50, times.p95, times.p99]) + "\n")
            rows.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
