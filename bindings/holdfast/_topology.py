"""``holdfast topology``: maps of links, for people."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

import holdfast
from holdfast.errors import ConfigError
from holdfast.topology import chart, discover, levels

EXAMPLES = """examples:
  holdfast run -n 4 holdfast topology measure --out map.json   (or by srun, torchrun, mpirun)
  holdfast topology discover                    what this host says of its cards and GPUs
  holdfast topology show map.json               domains, the slowest pairs, what is shared
  holdfast topology partition map.json --levels 3 --gigabytes 28
  holdfast topology diff yesterday.json map.json --tolerance 10
"""
# As of diff(1): 0 is alike, and 2 trouble.
_DIFFERENT = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's own commands.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        Of the command.
    """
    commands = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    measure = commands.add_parser(
        "measure",
        help="measure the links between the hosts of a job; what each of its ranks runs",
        description="Measures links pair by pair, and what they share. Every rank of a job runs "
        "this, under whatever starts its ranks; rank 0 writes the map.",
        epilog="example: holdfast run -n 4 holdfast topology measure --out map.json",
    )
    measure.add_argument("--out", type=Path, metavar="FILE", help="default: standard output")
    measure.add_argument(
        "--budget", type=float, default=5.0, metavar="SECONDS", help="to take about so long (5)"
    )
    measure.set_defaults(run=_measure)
    found = commands.add_parser(
        "discover",
        help="say what this host says of its own links: cards, RDMA, NUMA nodes, GPUs",
        description="Sends nothing. What the system does not say is not known, and why.",
    )
    found.add_argument("--json", action="store_true", help="for programs")
    found.set_defaults(run=_discover)
    show = commands.add_parser("show", help="say what is in a map")
    show.add_argument("map", type=Path, metavar="FILE", help="a map of links (JSON)")
    show.add_argument("--json", action="store_true", help="for programs")
    show.set_defaults(run=_show)
    parts = commands.add_parser(
        "partition",
        help="group ranks into levels for sharded training, and say what a step sends",
        description="What holdfast.topology.partition makes of a map.",
    )
    parts.add_argument("map", type=Path, metavar="FILE", help="a map of links (JSON)")
    parts.add_argument("--levels", type=int, default=3, metavar="N", help="ranks included (3)")
    parts.add_argument(
        "--across",
        choices=("replicate", "pipeline"),
        default="replicate",
        help="what the outermost level is for (replicate)",
    )
    parts.add_argument(
        "--gigabytes", type=float, default=1.0, metavar="GB", help="of the model's parameters (1)"
    )
    parts.add_argument("--json", action="store_true", help="for programs")
    parts.set_defaults(run=_partition)
    diff = commands.add_parser(
        "diff",
        help="say what changed from a map to another",
        description="Status 0: they are alike, 1: they differ, 2: one cannot be read.",
    )
    diff.add_argument("old", type=Path, metavar="OLD", help="a map of links (JSON)")
    diff.add_argument("new", type=Path, metavar="NEW", help="another one")
    diff.add_argument(
        "--tolerance",
        type=float,
        default=5.0,
        metavar="PERCENT",
        help="rates and latencies that differ by no more are alike (5)",
    )
    diff.set_defaults(run=_diff)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"topology {path}: {error}") from None


def _read(path: Path) -> chart.Chart:
    text = _text(path)
    try:
        return chart.read(text)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _measure(arguments: argparse.Namespace) -> int:
    with holdfast.init() as group:
        known = group.measure(arguments.budget)
        if group.rank != 0:
            return 0
        text = json.dumps(known["map"])
        if arguments.out is None:
            print(text)
            return 0
        arguments.out.write_text(f"{text}\n")
        print("\n".join(chart.describe(chart.read(text))))
    return 0


def _discover(arguments: argparse.Namespace) -> int:
    found = discover.facts(nvml=discover.nvml_module())
    if arguments.json:
        print(json.dumps([asdict(fact) for fact in found]))
        return 0
    wide = max(len(fact.what) for fact in found)
    said = max(len(fact.value or "not known") for fact in found)
    for fact in found:
        print(f"{fact.what:{wide}}  {fact.value or 'not known':{said}}  {fact.source}")
    return 0


def _partition(arguments: argparse.Namespace) -> int:
    if not 0 < arguments.gigabytes <= 1e6:
        raise ConfigError(f"--gigabytes {arguments.gigabytes:g}; accepted: more than 0, to 1e6")
    size = int(arguments.gigabytes * 1e9)
    parts = levels.partition(_text(arguments.map), arguments.levels, across=arguments.across)
    if arguments.json:
        print(json.dumps({**asdict(parts), "bytes_out": parts.bytes_out(size)}))
    else:
        print("\n".join(levels.describe(parts, size)))
    return 0


def _show(arguments: argparse.Namespace) -> int:
    found = _read(arguments.map)
    if not arguments.json:
        print("\n".join(chart.describe(found)))
        return 0
    shared = [
        {"name": one.name, "kbit_per_s": one.kbit_per_s, "from": one.senders, "to": one.receivers}
        for one in found.shared
    ]
    print(
        json.dumps(
            {
                "ranks": found.ranks,
                "digest": found.digest,
                "domains": found.domains,
                "kbit_per_s": found.kbit_per_s.tolist(),
                "alpha_ns": found.alpha_ns.tolist(),
                "shared": shared,
            }
        )
    )
    return 0


def _diff(arguments: argparse.Namespace) -> int:
    if not 0 <= arguments.tolerance < 100:
        raise ConfigError(f"--tolerance {arguments.tolerance:g}; accepted: 0 to 100, in percent")
    old, new = _read(arguments.old), _read(arguments.new)
    lines = list(chart.differences(old, new, arguments.tolerance / 100))
    print("\n".join(lines) if lines else "they are alike")
    return _DIFFERENT if lines else 0
