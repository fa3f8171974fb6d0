"""What a map of links is worth: all_reduce between hosts of which one has a slow cable, and all
collectives between sites.

    python tests/bench/map_links.py --ranks 8 --mbit 100 --slow 25
    python tests/bench/map_links.py --sites 00001111 --mbit 200 --megabytes 32

With `--sites`, a digit for each rank says where it is; a line of `--mbit` leads out of each site,
or of as many as `--lines` says, and its hosts have cables of 1 Gbit/s. All collectives run with the
map; the least is what must cross the lines. `--congestion cubic` has TCP go by that in place of the
system's choice, which matters much (docs/guide/topology.md).

Every rank is a host of its own: a network namespace at a switch, whose cable the kernel holds to
its rate, both ways. In turns run gloo, Holdfast without a map, its ring, and Holdfast with the map.
Prints Markdown: the median time, and as a multiple of the payload by the slow cable's rate, which
no algorithm goes below. Needs root, `ip`, `tc` and `nft`; says what is missing, and ends with
status 2, where they are not.
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
from emulated_network import Network, Unavailable
from emulated_sites import Sites
from ranks import Outcome, finish, start_rank

LIMIT_S = 120.0


def write_map(path: Path, rates: list[float]) -> None:
    """A network card of so many Mbit/s each."""
    everybody = list(range(len(rates)))
    shared = []
    for rank, mbit in enumerate(rates):
        others = [r for r in everybody if r != rank]
        shared.append(
            {"name": f"out {rank}", "gbit_per_s": mbit / 1e3, "from": [rank], "to": others}
        )
        shared.append(
            {"name": f"into {rank}", "gbit_per_s": mbit / 1e3, "from": others, "to": [rank]}
        )
    chart = {"format": 1, "ranks": len(rates), "gbit_per_s": 10, "alpha_us": 100, "shared": shared}
    path.write_text(json.dumps(chart))


def choose_control(network: Network) -> None:
    if name := os.environ.get("BENCH_CONGESTION"):
        network.congestion_control(name)


def tell(seconds: list[float]) -> None:
    if int(os.environ["RANK"]) == 0:
        print("SECONDS", json.dumps(seconds), flush=True)


def with_holdfast() -> None:
    """One rank of Holdfast's runs."""
    import holdfast

    array = np.ones(int(os.environ["BENCH_BYTES"]) // 4, np.float32)
    other = np.empty_like(array)
    found = []
    with holdfast.init(options=holdfast.Options.from_env()) as group:
        part = array[: array.size // group.size]
        calls = {
            "all_reduce": lambda: group.all_reduce(array),
            "broadcast": lambda: group.broadcast(array),
            "reduce_scatter": lambda: group.reduce_scatter(part, other),
            "all_gather": lambda: group.all_gather(other, part),
            "all_to_all": lambda: group.all_to_all(other, array),
        }
        call = calls[os.environ.get("BENCH_COLLECTIVE", "all_reduce")]
        for _ in range(int(os.environ["BENCH_ROUNDS"]) + 1):
            group.barrier()
            start = time.monotonic()
            call()
            found.append(time.monotonic() - start)
        group.barrier()
    tell(found[1:])


def with_gloo() -> None:
    """One rank of gloo's."""
    import torch
    import torch.distributed as dist

    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group(
        "gloo", init_method=f"file://{os.environ['MEETING_FILE']}", rank=rank, world_size=size
    )
    tensor = torch.ones(int(os.environ["BENCH_BYTES"]) // 4)
    found = []
    for _ in range(int(os.environ["BENCH_ROUNDS"]) + 1):
        dist.barrier()
        start = time.monotonic()
        dist.all_reduce(tensor)
        found.append(time.monotonic() - start)
    dist.barrier()
    dist.destroy_process_group()
    tell(found[1:])


def run(function: str, rates: list[float], env: dict[str, str]) -> list[float]:
    """Run ranks on hosts of their own; the seconds that rank 0 tells."""
    with tempfile.TemporaryDirectory() as here, Network(len(rates)) as network:
        if "HOLDFAST_TOPOLOGY" in env:
            env = {**env, "HOLDFAST_TOPOLOGY": f"{here}/map.json"}
            write_map(Path(here) / "map.json", rates)
        choose_control(network)
        processes = []
        for rank, mbit in enumerate(rates):
            network.even_cable(rank, mbit)
            own = {
                "HOLDFAST_TRANSPORTS": "tcp",
                "HOLDFAST_ADDRESS": network.address(rank),
                "HOLDFAST_HOST_ID": f"host{rank}",
                "HOLDFAST_TIMEOUT": "100",
                "GLOO_SOCKET_IFNAME": "eth",
                "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
            }
            at = (rank, len(rates), Path(here), {**env, **own}, network.inside(rank))
            processes.append(start_rank("map_links", function, *at))
        return told(finish(processes, LIMIT_S))


def told(outcomes: list[Outcome]) -> list[float]:
    """The seconds that rank 0 tells."""
    failed = "\n".join(o.output for o in outcomes if o.status != 0)
    if failed:
        raise RuntimeError(failed)
    (line,) = [x for x in outcomes[0].output.splitlines() if x.startswith("SECONDS ")]
    return list(json.loads(line.removeprefix("SECONDS ")))


def write_sites(path: Path, site_of: list[int], lines: list[float]) -> None:
    """A map of sites, with a line of so many Mbit/s out of each and into it."""
    ranks = range(len(site_of))
    alpha = [
        [0 if r == s else 100 if site_of[r] == site_of[s] else 300 for s in ranks] for r in ranks
    ]
    shared = []
    for rank in ranks:
        others = [r for r in ranks if r != rank]
        shared.append({"name": f"out {rank}", "gbit_per_s": 1, "from": [rank], "to": others})
        shared.append({"name": f"into {rank}", "gbit_per_s": 1, "from": others, "to": [rank]})
    for site in sorted(set(site_of)):
        inside = [r for r in ranks if site_of[r] == site]
        outside = [r for r in ranks if site_of[r] != site]
        line = lines[site] / 1e3
        shared.append({"name": f"from {site}", "gbit_per_s": line, "from": inside, "to": outside})
        shared.append({"name": f"to {site}", "gbit_per_s": line, "from": outside, "to": inside})
    chart = {"format": 1, "ranks": len(site_of), "gbit_per_s": 10, "alpha_us": alpha}
    path.write_text(json.dumps({**chart, "shared": shared}))


def run_sites(site_of: list[int], lines: list[float], env: dict[str, str]) -> list[float]:
    """Run ranks in sites; the seconds that rank 0 tells."""
    with tempfile.TemporaryDirectory() as here, Sites(site_of) as network:
        write_sites(Path(here) / "map.json", site_of, lines)
        choose_control(network)
        for site in sorted(set(site_of)):
            network.line(site, lines[site])
        processes = []
        for rank in range(len(site_of)):
            network.even_cable(rank, 1000)
            own = {
                "HOLDFAST_TOPOLOGY": f"{here}/map.json",
                "HOLDFAST_TRANSPORTS": "tcp",
                "HOLDFAST_ADDRESS": network.address(rank),
                "HOLDFAST_HOST_ID": f"host{rank}",
                "HOLDFAST_TIMEOUT": "100",
                "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
            }
            at = (rank, len(site_of), Path(here), {**env, **own}, network.inside(rank))
            processes.append(start_rank("map_links", "with_holdfast", *at))
        return told(finish(processes, LIMIT_S))


def least_seconds(collective: str, size: int, site_of: list[int], lines: list[float]) -> float:
    """The time of the busiest line, each way, that nothing goes below."""
    ranks = len(site_of)
    least = 0.0
    for site in sorted(set(site_of)):
        inside = site_of.count(site)
        # What must leave the site and what must come in, in parts of the payload.
        out, into = {
            "reduce_scatter": (1 - inside / ranks, inside / ranks),
            "all_gather": (inside / ranks, 1 - inside / ranks),
            "all_to_all": (inside * (ranks - inside) / ranks,) * 2,
            "broadcast": (1.0, 0.0) if site_of[0] == site else (0.0, 1.0),
        }.get(collective, (1.0, 1.0))
        least = max(least, max(out, into) * size * 8 / (lines[site] * 1e6))
    return least


def sites_table(arguments: argparse.Namespace) -> None:
    site_of = [int(digit) for digit in arguments.sites]
    size = arguments.megabytes << 20
    lines = [arguments.mbit] * (max(site_of) + 1)
    if arguments.lines:
        lines = [float(line) for line in arguments.lines.split(",")]
    said = ", ".join(f"{line:g}" for line in lines)
    print(
        f"| {arguments.megabytes} MiB, sites {arguments.sites}, {said} Mbit/s | s | of the least |"
    )
    print("|---|---|---|")
    for collective in arguments.collectives.split(","):
        env = {"BENCH_BYTES": str(size), "BENCH_ROUNDS": str(arguments.rounds)}
        found = run_sites(site_of, lines, {**env, "BENCH_COLLECTIVE": collective})
        seconds = statistics.median(found)
        least = least_seconds(collective, size, site_of, lines)
        print(f"| {collective} | {seconds:.2f} | {seconds / least:.2f} |", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--mbit", type=float, default=100, help="of all cables but one")
    parser.add_argument("--slow", type=float, default=25, help="of the last rank's, Mbit/s")
    parser.add_argument("--megabytes", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sites", help="by rank the digit of its site, as 00001111")
    parser.add_argument("--lines", metavar="M,M", help="by site, its line's Mbit/s, for --mbit")
    parser.add_argument("--congestion", metavar="NAME", help="TCP's congestion control")
    parser.add_argument(
        "--collectives", default="all_reduce,broadcast,reduce_scatter,all_gather,all_to_all"
    )
    arguments = parser.parse_args()
    if arguments.congestion:
        os.environ["BENCH_CONGESTION"] = arguments.congestion
    if arguments.sites:
        try:
            sites_table(arguments)
        except Unavailable as why:
            print(why, file=sys.stderr)
            return 2
        return 0
    rates = [arguments.mbit] * (arguments.ranks - 1) + [arguments.slow]
    size = arguments.megabytes << 20
    common = {"BENCH_BYTES": str(size), "BENCH_ROUNDS": str(arguments.rounds)}
    ways = {
        "gloo": ("with_gloo", {}),
        "without a map": ("with_holdfast", {}),
        "ring": ("with_holdfast", {"HOLDFAST_ALGORITHM": "ring"}),
        "with the map": ("with_holdfast", {"HOLDFAST_TOPOLOGY": ""}),
    }
    least = size * 8 / (arguments.slow * 1e6)
    print(
        f"| all_reduce of {arguments.megabytes} MiB, {arguments.ranks} hosts | s | of the least |"
    )
    print("|---|---|---|")
    try:
        for name, (function, env) in ways.items():
            seconds = statistics.median(run(function, rates, {**common, **env}))
            print(f"| {name} | {seconds:.2f} | {seconds / least:.2f} |", flush=True)
    except Unavailable as why:
        print(why, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
