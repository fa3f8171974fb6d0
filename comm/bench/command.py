"""``holdfast bench``: the arguments, the ranks' processes, and what is printed meanwhile."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast import __version__, _core, _transports
from holdfast.comm.bench import churn, codecs, neighbours, overlap, plan, processes, report
from holdfast.comm.bench.mpi import launchers, programs
from holdfast.errors import ConfigError

_DEFAULT_SIZES = "4,1K,4K,64K,1M,16M,64M"
_PEERS = ("gloo", "mpi")

EXAMPLES = """examples:
  holdfast bench                                         all_reduce, 2 ranks, beside what is there
  holdfast bench -c all -n 2,4 --sizes 4K,1M,64M --plot bench.png
  holdfast bench -c all_reduce --min 4 --max 256M --factor 4 --json > rows.jsonl
  holdfast bench --roofline -n 2,4 --sizes 64K,64M       and what part of the possible that is
  holdfast bench --churn -n 4 --sizes 4K,64M             how long a killed rank costs the others
  holdfast bench --neighbour 1 -n 2,4 --sizes 8,4K,64K   beside a busy process
  holdfast bench --overlap --sizes 16M --peers gloo       what computing hides, and what it costs
  holdfast bench --codec int8+onebit --sizes 64M --transport tcp --peers gloo
  holdfast bench --api mpi -n 2,4 --mpiexec A/bin/mpiexec,B/bin/mpiexec    a C program of MPI
  holdfast bench -c broadcast --algorithm binomial_tree,double_tree --transport tcp
"""


def _add_modes(parser: argparse.ArgumentParser) -> None:
    """Add what says that something else is measured."""
    add = parser.add_argument
    add(
        "--churn",
        action="store_true",
        help="instead, kill ranks in the middle of all_reduce, and time the recovery",
    )
    add(
        "--overlap",
        action="store_true",
        help="instead, time asynchronous ops beside a computation",
    )
    add(
        "--codec",
        metavar="A+B",
        help="instead, measure codecs: bytes on the wire, time, error, rates by memcpy's",
    )
    add("--kills", type=int, default=20, help="per row of --churn (default: 20)")
    add("--hosts", type=int, default=1, help="that --churn plays on this machine (default: 1)")
    add(
        "--children",
        type=int,
        default=0,
        help="that each rank of --churn has forked, and that outlive it (default: 0)",
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add = parser.add_argument
    add(
        "-c",
        "--collectives",
        metavar="LIST",
        help="with commas, or all (default: all_reduce); of --api mpi: "
        f"{', '.join(programs.SETS)} (default: all)",
    )
    add("-n", "--ranks", default="2", metavar="LIST", help="numbers of ranks (default: 2)")
    add(
        "--sizes",
        metavar="LIST",
        help=f"bytes (default: {_DEFAULT_SIZES}); of --api mpi: its cases of these sizes alone",
    )
    add("--min", metavar="SIZE", help="smallest size, instead of --sizes")
    add("--max", metavar="SIZE", default="256M", help="largest size (default: 256M)")
    add("--factor", type=int, default=4, help="from one size to the next (default: 4)")
    add("--dtypes", default="float32", metavar="LIST", help=f"of {', '.join(plan.DTYPES)}")
    usual = ",".join(row.name for row in _transports.rows() if not row.must_agree)
    listed = ", ".join(_transports.names())
    add("--transport", default=usual, metavar="LIST", help=f"{listed} (default: {usual})")
    add("--algorithm", default="", metavar="LIST", help="of Holdfast (default: it chooses)")
    add(
        "--peers",
        default="all",
        metavar="LIST",
        help="gloo, mpi, all or none; of --api mpi: "
        f"{', '.join(programs.PEERS)}, all or none (default: all that are there)",
    )
    add(
        "--api",
        default="torch",
        choices=("torch", "group", "mpi"),
        help="Holdfast through torch's API, holdfast.Group, or a C program of MPI (default: torch)",
    )
    add(
        "--mpiexec",
        metavar="PATH",
        help="the MPI to compare with (default: the one on PATH); several for --api mpi",
    )
    add("--rounds", type=int, default=7, help="turns of each contestant per row (default: 7)")
    _add_modes(parser)
    add(
        "--roofline",
        action="store_true",
        help="measure, too, what copies, additions and sockets of this machine allow",
    )
    add(
        "--neighbour",
        type=int,
        default=0,
        metavar="N",
        help="keep N processes at nice 19 busy meanwhile (default: 0)",
    )
    add("--pool", action="store_true", help="measure Holdfast on memory of holdfast.empty, too")
    add("--json", action="store_true", help="one JSON object a line")
    add("--plot", type=Path, metavar="FILE", help="draw bus bandwidth over size")
    parser.set_defaults(run=run)


def _find_mpi(arguments: argparse.Namespace, peers: tuple[str, ...]) -> tuple[str, list[str]]:
    """Return MPI's name and how to start its ranks; empty when there is none."""
    if "mpi" not in peers:
        return "", []
    path = arguments.mpiexec or launchers.find()
    if path is None or importlib.util.find_spec("mpi4py") is None:
        missing = "mpiexec" if path is None else "mpi4py"
        print(f"no {missing}: measuring without MPI", file=sys.stderr)
        return "", []
    launcher = launchers.ask(path)
    return launcher.name, launcher.command()


def _cases(arguments: argparse.Namespace) -> list[plan.Case]:
    collectives = plan.chosen(
        "--collectives", arguments.collectives or "all_reduce", plan.COLLECTIVES
    )
    dtypes = plan.chosen("--dtypes", arguments.dtypes, plan.DTYPES)
    if arguments.min:
        sizes = plan.sizes_between(
            plan.parse_size(arguments.min), plan.parse_size(arguments.max), arguments.factor
        )
    else:
        listed = (arguments.sizes or _DEFAULT_SIZES).split(",")
        sizes = tuple(plan.parse_size(text) for text in listed)
    return [
        plan.Case(collective, size, dtype)
        for collective in collectives
        for dtype in (dtypes if collective != "barrier" else dtypes[:1])
        for size in (sizes if collective != "barrier" else sizes[:1])
    ]


def _measure(config: dict[str, Any], ranks: int, mpi: list[str]) -> Iterator[list[report.Row]]:
    """Yield the rows of one case after the other."""
    of_case: list[report.Row] = []
    for values in processes.rows_of("holdfast.comm.bench.rank", config, ranks, mpi):
        row = report.Row(*values)
        if of_case and of_case[-1].case != row.case:
            yield of_case
            of_case = []
        of_case.append(row)
    if of_case:
        yield of_case


def _overlap(config: dict[str, Any], numbers: list[int], cases: int, *, as_json: bool) -> int:
    if not as_json:
        print(overlap.HEADER, flush=True)
    done = 0
    for ranks in numbers:
        for values in processes.rows_of("holdfast.comm.bench.overlap", config, ranks):
            row = overlap.Row(*values)
            print(json.dumps(row.as_json()) if as_json else row.line(), flush=True)
            done += row.is_last
            report.progress(done, len(numbers) * cases)
    return 0


def _codecs(arguments: argparse.Namespace, config: dict[str, Any], numbers: list[int]) -> int:
    names = [name for name in arguments.codec.split("+") if name]
    config["codecs"] = [_core.codec_text(name) for name in names]
    for case in config["cases"]:
        codecs.check_case(plan.Case(*case), config["codecs"])
    if not arguments.json:
        print(codecs.HEADER, flush=True)
    done, total = 0, len(numbers) * len(config["cases"]) * len(config["transports"])
    for ranks in numbers:
        for values in processes.rows_of("holdfast.comm.bench.codecs", config, ranks):
            row = codecs.Row(*values)
            print(json.dumps(row.as_json()) if arguments.json else row.line(), flush=True)
            done += row.is_last
            report.progress(done, total)
    return 0


def _churn(arguments: argparse.Namespace, numbers: list[int], cases: list[plan.Case]) -> int:
    if arguments.kills < 1:
        raise ConfigError(f"--kills {arguments.kills}; accepted: 1 and more")
    transports = plan.chosen("--transport", arguments.transport, _transports.names())
    if not 0 <= arguments.children <= churn.MOST_CHILDREN:
        raise ConfigError(f"--children {arguments.children}; accepted: 0 to {churn.MOST_CHILDREN}")
    if not 1 <= arguments.hosts <= min(numbers):
        raise ConfigError(f"--hosts {arguments.hosts}; accepted: 1 to the number of ranks")
    worlds = [
        churn.World(transport, ranks, size, arguments.hosts, arguments.children)
        for transport in transports
        for ranks in numbers
        for size in sorted({case.size for case in cases})
    ]
    if not arguments.json:
        print(churn.HEADER, flush=True)
    for done, row in enumerate(churn.measure(worlds, arguments.kills), 1):
        print(row.as_json() if arguments.json else row.line(), flush=True)
        report.progress(done, len(worlds))
    return 0


def _mpi_programs(arguments: argparse.Namespace) -> int:
    listed = (arguments.sizes or "").split(",")
    wanted = programs.Wanted(
        numbers=plan.ranks("--ranks", arguments.ranks, least=1),
        sets=plan.chosen("--collectives", arguments.collectives or "all", programs.SETS),
        sizes=tuple(plan.parse_size(text) for text in listed if text),
        rounds=max(1, arguments.rounds),
    )
    return programs.run(wanted, arguments.peers, arguments.mpiexec, as_json=arguments.json)


def run(arguments: argparse.Namespace) -> int:
    """Run the command.

    Raises
    ------
    ConfigError
        For arguments that cannot be used; the message names what is accepted.
    HoldfastError
        When a rank fails.
    """
    if arguments.api == "mpi":
        return _mpi_programs(arguments)
    if importlib.util.find_spec("torch") is None:
        raise ConfigError("holdfast bench needs torch: its ranks meet through it, gloo is in it")
    if not 0 <= arguments.neighbour <= neighbours.MOST:
        raise ConfigError(
            f"--neighbour {arguments.neighbour}; accepted: 0 to {neighbours.MOST} busy processes"
        )
    with neighbours.busy(arguments.neighbour):
        return _run(arguments)


def _run(arguments: argparse.Namespace) -> int:
    numbers, cases = plan.ranks("--ranks", arguments.ranks), _cases(arguments)
    if arguments.churn:
        return _churn(arguments, numbers, cases)
    if arguments.overlap and not {c.collective for c in cases} <= set(overlap.COLLECTIVES):
        raise ConfigError(f"--overlap takes -c {','.join(overlap.COLLECTIVES)}")
    peers = () if arguments.peers == "none" else plan.chosen("--peers", arguments.peers, _PEERS)
    name, mpi = _find_mpi(arguments, peers)
    config: dict[str, Any] = {
        "cases": [(c.collective, c.size, c.dtype) for c in cases],
        "transports": plan.chosen("--transport", arguments.transport, _transports.names()),
        "algorithms": [a for a in arguments.algorithm.split(",") if a],
        "peers": peers,
        "api": arguments.api,
        "rounds": max(1, arguments.rounds),
        "mpi": name,
        "roofline": arguments.roofline,
        "pool": arguments.pool,
    }
    if arguments.codec:
        return _codecs(arguments, config, numbers)
    if arguments.overlap:
        return _overlap(config, numbers, len(cases), as_json=arguments.json)
    everything: list[report.Row] = []
    if not arguments.json:
        print(report.HEADER)
    for done, ranks in enumerate(numbers):
        for index, rows in enumerate(_measure(config, ranks, mpi), 1):
            report.compare(rows)
            everything += rows
            for row in rows:
                text = json.dumps(row.as_json(__version__)) if arguments.json else report.line(row)
                print(text, flush=True)
            report.progress(done * len(cases) + index, len(numbers) * len(cases))
    if arguments.plot:
        report.plot(everything, arguments.plot)
    return 0
