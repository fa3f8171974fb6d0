"""Two sites far from each other: how often an op crosses the path, and what measuring finds of it.

    python tests/bench/far_sites.py --ranks 8 --delay-ms 10

Half of the ranks are in each of two network namespaces, each rank a host of its own; between them
is an emulated path (tests/python/support/emulated_path.py). Prints Markdown: for small collectives
the median time as a multiple of the delay, one way, which nothing goes below, by the map, without
one, and by gloo; then the latency that `group.measure()` finds at several delays. Needs root, `ip`
and /dev/net/tun; says what is missing, and ends with status 2, where they are not.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python/support"))

import numpy as np
from emulated_network import Unavailable
from emulated_path import LongPath
from ranks import finish, start_rank

LIMIT_S = 120.0
COLLECTIVES = ("all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter", "all_to_all")


def tell(value: object) -> None:
    if int(os.environ["RANK"]) == 0:
        print("TOLD", json.dumps(value), flush=True)


def with_holdfast() -> None:
    """One rank of Holdfast's runs: each collective's time until the last rank has ended it."""
    import holdfast

    count = int(os.environ["BENCH_BYTES"]) // 4
    array, other = np.ones(count, np.float32), np.empty(count, np.float32)
    found = {}
    with holdfast.init() as group:
        part = array[: count // group.size]
        calls = {
            "all_reduce": lambda: group.all_reduce(array),
            "broadcast": lambda: group.broadcast(array),
            "reduce": lambda: group.reduce(array),
            "all_gather": lambda: group.all_gather(other, part),
            "reduce_scatter": lambda: group.reduce_scatter(part, other),
            "all_to_all": lambda: group.all_to_all(other, array),
        }
        for name, call in calls.items():
            found[name] = timed(call, group.barrier)
        last = np.array(list(found.values()))
        group.all_reduce(last, op="max")
    tell(dict(zip(found, last.tolist(), strict=True)))


def with_gloo() -> None:
    """One rank of gloo's."""
    import torch
    import torch.distributed as dist

    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group(
        "gloo", init_method=f"file://{os.environ['MEETING_FILE']}", rank=rank, world_size=size
    )
    tensor = torch.ones(int(os.environ["BENCH_BYTES"]) // 4)
    parts = list(torch.empty_like(tensor).chunk(size))
    calls = {
        "all_reduce": lambda: dist.all_reduce(tensor),
        "broadcast": lambda: dist.broadcast(tensor, 0),
        "reduce": lambda: dist.reduce(tensor, 0),
        "all_gather": lambda: dist.all_gather(parts, parts[rank].clone()),
    }
    found = {name: timed(call, dist.barrier) for name, call in calls.items()}
    last = torch.tensor(list(found.values()))
    dist.all_reduce(last, op=dist.ReduceOp.MAX)
    dist.destroy_process_group()
    tell(dict(zip(found, last.tolist(), strict=True)))


def timed(call, barrier) -> float:
    """The median seconds of this rank, from a moment on that is the same for all.

    Ranks share the machine's clock. They leave a barrier up to some delays after one another.
    """
    rounds = int(os.environ["BENCH_ROUNDS"])
    apart = 8 * float(os.environ["BENCH_DELAY_S"])
    seconds = []
    for _ in range(rounds + 2):
        barrier()
        start = (int(time.monotonic() / apart) + 2) * apart
        time.sleep(start - time.monotonic())
        call()
        seconds.append(time.monotonic() - start)
    barrier()
    return statistics.median(seconds[2:])


def measures() -> None:
    """One rank that measures its links."""
    import holdfast

    with holdfast.init() as group:
        known = group.measure(float(os.environ["BENCH_BUDGET"]))["map"]
        half = group.size // 2
        tell([known["alpha_us"][0][half], known["alpha_us"][half][0]])


def run(function: str, ranks: int, path: LongPath, env: dict[str, str]) -> object:
    with tempfile.TemporaryDirectory() as here:
        if "HOLDFAST_TOPOLOGY" in env:
            env = {**env, "HOLDFAST_TOPOLOGY": f"{here}/map.json"}
            write_map(Path(here) / "map.json", ranks, float(env["BENCH_DELAY_S"]))
        processes = []
        for rank in range(ranks):
            place = rank * 2 // ranks
            own = {
                "HOLDFAST_TRANSPORTS": "tcp",
                "HOLDFAST_ADDRESS": path.address(place),
                "HOLDFAST_HOST_ID": f"host{rank}",
                "HOLDFAST_TIMEOUT": "60",
                "GLOO_SOCKET_IFNAME": "wan",
                "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
            }
            at = (rank, ranks, Path(here), {**env, **own}, path.inside(place))
            processes.append(start_rank("far_sites", function, *at))
        outcomes = finish(processes, LIMIT_S)
    failed = "\n".join(o.output for o in outcomes if o.status != 0)
    if failed:
        raise RuntimeError(failed)
    (line,) = [x for x in outcomes[0].output.splitlines() if x.startswith("TOLD ")]
    return json.loads(line.removeprefix("TOLD "))


def write_map(path: Path, ranks: int, delay_s: float) -> None:
    site = [rank * 2 // ranks for rank in range(ranks)]
    alpha = [
        [0 if r == s else 50 if site[r] == site[s] else delay_s * 1e6 for s in range(ranks)]
        for r in range(ranks)
    ]
    sites = [[r for r in range(ranks) if site[r] == s] for s in (0, 1)]
    line = [
        {"name": f"out of {s}", "gbit_per_s": 0.2, "from": sites[s], "to": sites[1 - s]}
        for s in (0, 1)
    ]
    chart = {"format": 1, "ranks": ranks, "gbit_per_s": 1, "alpha_us": alpha, "shared": line}
    path.write_text(json.dumps(chart))


def collectives_table(arguments: argparse.Namespace, path: LongPath) -> None:
    delay_s = arguments.delay_ms / 1e3
    path.set("both", delay_ms=arguments.delay_ms, mbit=200)
    common = {
        "BENCH_BYTES": str(arguments.kilobytes << 10),
        "BENCH_ROUNDS": str(arguments.rounds),
        "BENCH_DELAY_S": str(delay_s),
    }
    ways = {
        "with the map": ("with_holdfast", {"HOLDFAST_TOPOLOGY": ""}),
        "without": ("with_holdfast", {}),
        "gloo": ("with_gloo", {}),
    }
    found = {
        name: run(function, arguments.ranks, path, {**common, **env})
        for name, (function, env) in ways.items()
    }
    print(f"| {arguments.kilobytes} KiB, times {arguments.delay_ms:g} ms | {' | '.join(ways)} |")
    print("|---" * (len(ways) + 1) + "|")
    for name in COLLECTIVES:
        cells = [
            f"{values[name] / delay_s:.2f}" if name in values else "-" for values in found.values()
        ]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def latency_table(arguments: argparse.Namespace, path: LongPath) -> None:
    print("\n| delay, one way | measured there, back |\n|---|---|")
    for delay_ms in (0.5, 2, 10, 40):
        path.set("both", delay_ms=delay_ms, mbit=200)
        there, back = run("measures", arguments.ranks, path, {"BENCH_BUDGET": "5"})
        print(f"| {delay_ms:g} ms | {there / 1e3:.2f}, {back / 1e3:.2f} ms |", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=8, help="half of them in each site")
    parser.add_argument("--delay-ms", type=float, default=10, help="one way")
    parser.add_argument("--kilobytes", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    try:
        with LongPath() as path:
            collectives_table(arguments, path)
            latency_table(arguments, path)
    except Unavailable as why:
        print(why, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
