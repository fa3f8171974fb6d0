"""How near measured maps are: group.measure() between hosts whose cables the kernel holds.

    python tests/bench/measure_links.py --layouts 20

Every rank is a host of its own: a network namespace. Prints Markdown, a row for each network:
seconds, the load of the machine before, and by how much pairs' rates, latencies and shared lines
are off (the middle one, and the worst). A rate's truth is 0.955 of the cable's, which is what TCP
carries of it in frames of 1500 bytes; a latency's is half of the least round trip that bytes over
an idle connection take. Then random layouts of sites: in how many of them sites and lines were
found as they are, and in how many networks without sites some were seen. Needs root, `ip`, `tc`
and `nft`; says what is missing, and ends with status 2, where they are not.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python/support"))

from emulated_network import Unavailable
from emulated_sites import Sites
from ranks import finish, start_rank

LIMIT_S = 60.0
TCP = 0.955


def rank_of_a_measurement() -> None:
    """One rank: the map, and how long it took."""
    import holdfast

    with holdfast.init(options=holdfast.Options.from_env()) as group:
        group.barrier()
        start = time.monotonic()
        known = group.measure(float(os.environ["BUDGET"]))
        spent = time.monotonic() - start
        group.barrier()
    if group.rank == 0:
        print("MAP", json.dumps({"map": known["map"], "seconds": spent}), flush=True)


def measure(site_of: list[int], cables: list[float], line: float, budget: float) -> dict:
    """The map of hosts in sites, with lines of so many Mbit/s between these; 0: no limit."""
    with tempfile.TemporaryDirectory() as here, Sites(site_of) as network:
        for site in set(site_of) if line else ():
            network.line(site, line)
        processes = []
        for rank, mbit in enumerate(cables):
            network.even_cable(rank, mbit)
            env = {
                "HOLDFAST_TRANSPORTS": "tcp",
                "HOLDFAST_ADDRESS": network.address(rank),
                "HOLDFAST_HOST_ID": f"host{rank}",
                "BUDGET": str(budget),
                "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
            }
            at = (rank, len(cables), Path(here), env, network.inside(rank))
            processes.append(start_rank("measure_links", "rank_of_a_measurement", *at))
        outcomes = finish(processes, LIMIT_S)
    if failed := "\n".join(o.output for o in outcomes if o.status != 0):
        raise RuntimeError(failed)
    (told,) = [x for x in outcomes[0].output.splitlines() if x.startswith("MAP ")]
    return dict(json.loads(told.removeprefix("MAP ")))


def whole(value: object, ranks: int) -> list[list[float]]:
    return value if isinstance(value, list) else [[float(value)] * ranks] * ranks


def pairs_off(chart: dict, site_of: list[int], cables: list[float], line: float) -> list[float]:
    """By pair, by which part of it its rate is off."""
    rates = whole(chart["gbit_per_s"], len(cables))
    found = []
    for a, b in itertools.permutations(range(len(cables)), 2):
        true = min(cables[a], cables[b])
        if line and site_of[a] != site_of[b]:
            true = min(true, line)
        found.append(abs(rates[a][b] * 1e3 / (true * TCP) - 1))
    return found


def lines_of(chart: dict) -> list[dict]:
    return [one for one in chart["shared"] if not one["name"].startswith("host")]


def is_right(chart: dict, site_of: list[int], line: float) -> bool:
    """Whether sites are as they are, and each line is there, within a fifth."""
    names = [path[0] for path in chart["domains"]]
    pairs = itertools.combinations(range(len(site_of)), 2)
    alike = all((names[a] == names[b]) == (site_of[a] == site_of[b]) for a, b in pairs)
    near = [abs(one["gbit_per_s"] * 1e3 / (line * TCP) - 1) < 0.2 for one in lines_of(chart)]
    return alike and len(near) >= 2 and all(near)


def percent(values: list[float]) -> str:
    return f"{100 * statistics.median(values):.1f} / {100 * max(values):.1f} %"


def tell_networks(budget: float) -> None:
    print("| hosts | s | load | pairs' rates off, middle / worst | lines off | alpha_us, middle |")
    print("|---|---|---|---|---|---|")
    for mbit, line in ((20, 0), (100, 0), (300, 0), (1000, 0), (1000, 200), (100, 20)):
        site_of = [host % 2 if line else 0 for host in range(8)]
        load = os.getloadavg()[0]
        made = measure(site_of, [mbit] * 8, line, budget)
        chart = made["map"]
        off = pairs_off(chart, site_of, [mbit] * 8, line)
        lines = [abs(one["gbit_per_s"] * 1e3 / ((line or 1) * TCP) - 1) for one in lines_of(chart)]
        delays = [x for row in whole(chart["alpha_us"], 8) for x in row if x > 0]
        name = f"8 of {mbit} Mbit/s" + (f", a line of {line} between two sites" if line else "")
        print(
            f"| {name} | {made['seconds']:.1f} | {load:.1f} | {percent(off)} | "
            f"{percent(lines) if lines else 'none'} | {statistics.median(delays):.0f} |",
            flush=True,
        )


def tell_layouts(count: int) -> None:
    right, invented = 0, 0
    for seed in range(count):
        dice = random.Random(seed)
        site_of = [0, 0, 1, 1] + [dice.randrange(2) for _ in range(dice.randint(0, 2))]
        dice.shuffle(site_of)
        line = dice.choice([40, 60, 80])
        chart = measure(site_of, [200] * len(site_of), line, 2.0)["map"]
        right += is_right(chart, site_of, line)
        cables = [200 * dice.uniform(0.75, 1.25) for _ in range(4)]
        even = measure([0] * 4, cables, 0, 1.0)["map"]
        invented += len({path[0] for path in even["domains"]}) != 4 or bool(lines_of(even))
    print(f"\nsites and lines found in {right} of {count} layouts", flush=True)
    print(f"sites seen in {invented} of {count} networks of one site")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--budget", type=float, default=5.0, help="seconds of each of the networks")
    parser.add_argument("--layouts", type=int, default=0, help="random ones, besides")
    arguments = parser.parse_args()
    try:
        tell_networks(arguments.budget)
        if arguments.layouts:
            tell_layouts(arguments.layouts)
    except Unavailable as why:
        print(why, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
