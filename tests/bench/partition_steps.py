"""What levels are worth to FSDP2 over a slow line between two sites.

    python tests/bench/partition_steps.py --mbit 200 --host-mbit 1000

Two sites of two hosts with two ranks each, as network namespaces whose lines and cables the kernel
holds to their rates. examples/three_levels.py trains a larger GPT on them: flat FSDP2 (over gloo,
too), HSDP over two levels, three levels, each with the codec between sites and without. Prints
Markdown: the time of a step, and what crossed between sites, over links and by the partition. Needs
root, `ip`, `tc` and `nft`; says what is missing, and ends with status 2, where they are not.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python/support"))

from emulated_network import Unavailable
from emulated_sites import Sites
from ranks import finish, start_rank

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
LIMIT_S = 240.0
SITES, HOSTS, RANKS = 2, 2, 2  # in all, in a site, in a host


def train() -> None:
    """One rank: the example, with another model's size."""
    sys.path.insert(0, str(EXAMPLES))
    import three_levels

    three_levels.WIDTH, three_levels.LAYERS = 256, 4
    three_levels.BATCH, three_levels.CONTEXT = 8, 32
    sys.argv = ["three_levels.py", *json.loads(os.environ["BENCH_ARGUMENTS"])]
    three_levels.main()


def map_of(mbit: float, host_mbit: float) -> str:
    keys = ("name", "count", "gbit_per_s", "alpha_us")
    levels = [
        ("site", SITES, mbit / 1e3, 1000),
        ("host", HOSTS, host_mbit / 1e3, 100),
        ("rank", RANKS, 10, 10),
    ]
    return json.dumps({"format": 1, "levels": [dict(zip(keys, v, strict=True)) for v in levels]})


def run(arguments: list[str], mbit: float, host_mbit: float, with_map: bool) -> str:
    """Train on two sites; what rank 0 says."""
    hosts = SITES * HOSTS
    site_of = [host // HOSTS for host in range(hosts)]
    with tempfile.TemporaryDirectory() as here, Sites(site_of) as network:
        chart = Path(here) / "map.json"
        chart.write_text(map_of(mbit, host_mbit))
        for site in range(SITES):
            network.line(site, mbit)
        for host in range(hosts):
            network.even_cable(host, host_mbit)
        processes = []
        for rank in range(hosts * RANKS):
            host = rank // RANKS
            env = {
                "BENCH_ARGUMENTS": json.dumps([*arguments, "--map", str(chart)]),
                "HOLDFAST_ADDRESS": network.address(host),
                "HOLDFAST_HOST_ID": f"host{host}",
                "HOLDFAST_TIMEOUT": "200",
                "MASTER_ADDR": network.address(0),
                "MASTER_PORT": "29500",
                "GLOO_SOCKET_IFNAME": "eth",
                "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
                **({"HOLDFAST_TOPOLOGY": str(chart)} if with_map else {}),
            }
            at = (rank, hosts * RANKS, Path(here), env, network.inside(host))
            processes.append(start_rank("partition_steps", "train", *at))
        outcomes = finish(processes, LIMIT_S)
    failed = "\n".join(o.output for o in outcomes if o.status != 0)
    if failed:
        raise RuntimeError(failed)
    return outcomes[0].output


def row(name: str, said: str, flat_ms: float | None) -> float:
    """Print a way's row of the table; its milliseconds a step."""
    found = re.search(r"([\d.]+) ms a step", said)
    loss = re.search(r"loss ([\d.]+)", said)
    crossed = re.search(r"([\d.]+) MB a step over links, ([\d.]+)", said)
    assert found is not None
    assert loss is not None
    spent = float(found[1])
    times = "1.00" if flat_ms is None else f"{flat_ms / spent:.2f}"
    sent, told = crossed.groups() if crossed else ("", "")
    print(f"| {name} | {spent:.0f} | {times} | {sent} | {told} | {loss[1]} |", flush=True)
    return spent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mbit", type=float, default=200, help="of each site's line")
    parser.add_argument("--host-mbit", type=float, default=1000, help="of each host's cable")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--codec", default="int8")
    arguments = parser.parse_args()
    coded = ["--codec", arguments.codec]
    ways = {
        "flat FSDP2": (["--levels", "1"], False),
        "flat FSDP2, with the map": (["--levels", "1"], True),
        "flat FSDP2, gloo": (["--levels", "1", "--backend", "gloo"], False),
        "HSDP, two levels": (["--levels", "2"], False),
        f"HSDP, {arguments.codec} between sites": (["--levels", "2", *coded], False),
        "three levels": (["--levels", "3"], False),
        f"three levels, {arguments.codec} between sites": (["--levels", "3", *coded], False),
    }
    print("| way | ms a step | flat / this | MB between sites | predicted, no codec | loss |")
    print("|---|---|---|---|---|---|")
    flat: float | None = None
    try:
        for name, (options, with_map) in ways.items():
            steps = ["--steps", str(arguments.steps)]
            said = run([*options, *steps], arguments.mbit, arguments.host_mbit, with_map)
            spent = row(name, said, flat)
            flat = flat or spent
    except Unavailable as why:
        print(why, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
