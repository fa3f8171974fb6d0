"""``holdfast plan``: which algorithm runs where, and why; and how to find out what is fastest."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from holdfast import _core
from holdfast.comm.bench import codec_gain, plan, plan_topology, processes, report
from holdfast.compress.codec import codec_text
from holdfast.errors import ConfigError
from holdfast.options import Options
from holdfast.topology.link_fit import fit

_SIZES = "1K,4K,16K,64K,256K,1M,4M,16M"
# Those with more than one algorithm.
COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "all_to_all")
# A table of plans tells shared memory from all else, which it calls tcp, whatever carries it.
_TRANSPORTS = ("shm", "tcp")
_SHARED_MEMORY = "shared_memory"
EMPTY = "holdfast-plan 1\n"

EXAMPLES = """examples:
  holdfast plan -n 4                                     what would run, and what it should take
  holdfast plan -n 64 --hosts 8 -c all_reduce            of 64 ranks on 8 hosts
  holdfast plan -n 2 --codec int8+onebit                 from which size on a codec pays
  holdfast plan --measure -n 2,4 -o plan.txt             measure on this host
  HOLDFAST_PLAN=plan.txt python train.py                 and use that
  HOLDFAST_PLAN=plan.txt HOLDFAST_TUNE=1 python train.py    measure at first use, on any hosts
  holdfast plan --topology map.json -c all_reduce        weighted trees for links that differ
"""
HEADER = (
    f"{'collective':<15}{'ranks':>6}{'hosts':>6}  {'via':<4}{'size':>7}  "
    f"{'way':<10}{'algorithm':<20}{'time':>10}  why"
)


@dataclass(frozen=True, slots=True)
class Choice:
    """One row of the table: which way, what runs, how many seconds that takes, and why it does."""

    collective: str
    ranks: int
    hosts: int
    transport: str
    bytes: int
    way: str
    algorithm: str
    seconds: float | None
    why: str

    def line(self) -> str:
        """Return the row for people."""
        time = "-" if self.seconds is None else _time(self.seconds)
        return (
            f"{self.collective:<15}{self.ranks:>6}{self.hosts:>6}  {self.transport:<4}"
            f"{report.size_text(self.bytes):>7}  {self.way:<10}{self.algorithm:<20}{time:>10}  "
            f"{self.why}"
        )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add = parser.add_argument
    add("-c", "--collectives", default="all", metavar="LIST", help="with commas (default: all)")
    add("-n", "--ranks", default="2", metavar="LIST", help="numbers of ranks (default: 2)")
    add("--hosts", type=int, default=1, metavar="N", help="that the ranks are on (default: 1)")
    add(
        "--sizes",
        metavar="LIST",
        help=f"payload in bytes (default: {_SIZES}; of a map {plan_topology.DEFAULT_SIZES})",
    )
    add("--transport", default="shm,tcp", metavar="LIST", help="default: shm,tcp")
    add("--plan", metavar="FILE", help="table to go by (default: that of HOLDFAST_PLAN)")
    add("--codec", metavar="A+B", help="from which size on all_reduce over TCP gains by a codec")
    add("--measure", action="store_true", help="run all candidates on this host first")
    add("-o", "--output", type=Path, metavar="FILE", help="where --measure writes its table")
    add("--json", action="store_true", help="one JSON object a line")
    add("--topology", metavar="FILE", help="a map of links (JSON), for which trees are planned")
    add("--root", type=int, default=0, metavar="R", help="of broadcast and reduce on a map")
    add(
        "--without",
        type=int,
        action="append",
        default=[],
        metavar="RANK",
        help="plan as if this rank of the map were gone; may be repeated",
    )
    add("--exact", action="store_true", help="of a map: the bound by a linear program, too (scipy)")
    add("--steps", type=Path, metavar="FILE", help="write the steps of a map's plan, as JSON lines")
    parser.set_defaults(run=run)


def _time(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} us"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"


def _why(kind: str, ordered: list[tuple[str, float]]) -> str:
    if len(ordered) == 1:
        return f"{kind}; there is no other"
    name, seconds = ordered[1]
    return f"{kind}; next: {name}, {_time(seconds)}"


def _measured_beside(
    found: str, at: tuple[str, int, int, str, int], table: str
) -> list[tuple[str, float]]:
    """Return what was measured at the size that `found` was found at, fastest first."""
    collective, ranks, hosts, transport, size = at
    key = (collective, ranks, hosts, transport == "shm")
    rows = [row for row in _core.plan_rows(table) if row[:4] == key]
    powers = {row[4].bit_length() for row in rows if row[5] == found}
    # The order in which the native look-up goes.
    near = next(size.bit_length() + d for d in (0, -1, 1) if size.bit_length() + d in powers)
    beside = [(row[5], row[6]) for row in rows if row[4].bit_length() == near]
    return sorted(beside, key=lambda row: row[1])


def choose(
    collective: str, ranks: int, hosts: int, transport: str, size: int, table: str
) -> Choice:
    """Say what runs for a collective of `size` bytes of payload, and why.

    Parameters
    ----------
    collective : str
        One of `COLLECTIVES`.
    ranks, hosts : int
        How many, each host with as many ranks.
    transport : str
        shm or tcp, of all links.
    size : int
        Bytes, the larger of what goes in and what comes out of a rank.
    table : str
        The text of a table of plans.

    Returns
    -------
    Choice
        What a group of such ranks does.
    """
    shared = transport == "shm"
    at = (collective, ranks, hosts, transport, size)
    # What a group asks, too.
    way, algorithm, carried, reason, text = _core.route(
        collective, ranks, hosts, shared, size, table
    )
    if reason == "measured":
        ordered = _measured_beside(algorithm or _SHARED_MEMORY, at, table)
        return Choice(*at, way, *ordered[0], _why(reason, ordered))
    if algorithm is None:
        return Choice(*at, way, _SHARED_MEMORY, None, f"{text}; not measured")
    runs, of = collective, size
    if carried is not None:
        runs, of = carried, size * ranks if carried == "all_gather" else size
        reason = f"carried as {carried}; {reason}"
    predicted = dict(_core.predictions(runs, ranks, hosts, shared, of, table))
    ordered = sorted(
        # Only a table has calls of equal blocks choose what needs them.
        (p for p in predicted.items() if (runs, p[0]) != ("all_to_all", "bruck")),
        key=lambda p: (p[0] != algorithm, p[1]),
    )
    return Choice(*at, way, *ordered[0], _why(reason, ordered))


def with_links(table: str) -> str:
    """Add the constants of the cost model that follow from a table's measurements.

    Parameters
    ----------
    table : str
        The text of a table of plans.

    Returns
    -------
    str
        The same with a line per transport that enough was measured of.
    """
    parts = [table]
    for transport in _TRANSPORTS:
        terms, seconds = [], []
        for collective, ranks, hosts, shared, size, algorithm, took in _core.plan_rows(table):
            if shared != (transport == "shm") or hosts != 1 or algorithm == _SHARED_MEMORY:
                continue
            of_model = _core.cost_terms(collective, algorithm, ranks, size)
            if of_model is not None:
                terms.append(of_model)
                seconds.append(took)
        model = fit(terms, seconds)
        if model is not None:
            constants = f"{model.alpha!r} {model.beta!r} {model.gamma!r}"
            parts.append(f"{EMPTY}link {transport} {constants}\n")
    return _core.merge_plans(parts)


def _measure(
    arguments: argparse.Namespace, numbers: list[int], sizes: list[int], table: str
) -> str:
    if arguments.hosts != 1:
        raise ConfigError(
            f"--hosts {arguments.hosts} --measure; accepted: 1. On several hosts, run the program "
            "itself with HOLDFAST_TUNE=1"
        )
    transports = plan.chosen("--transport", arguments.transport, _TRANSPORTS)
    collectives = plan.chosen("--collectives", arguments.collectives, COLLECTIVES)
    cases = [(c, size, "float32") for c in collectives for size in sizes]
    config = {"cases": cases, "transports": transports}
    total, done = len(numbers) * len(transports) * len(cases), 0
    known = {}
    for ranks in numbers:
        for transport, found in processes.rows_of("holdfast.comm.bench.tuning", config, ranks):
            known[ranks, transport] = found  # with all that was found before
            done += 1
            report.progress(done, total)
    merged = with_links(_core.merge_plans([table, *known.values()]))
    if arguments.output is not None:
        arguments.output.write_text(merged)
        print(
            f"wrote {arguments.output}; HOLDFAST_PLAN={arguments.output} uses it", file=sys.stderr
        )
    return merged


def _read(file: str | None) -> str:
    name = file or Options.from_env().plan
    if not name:
        return EMPTY
    try:
        text = Path(name).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"plan {name}: {error}") from None
    try:
        _core.plan_rows(text)
    except ConfigError as error:
        raise ConfigError(f"plan {name}: {error}") from None
    return text


def _codecs(arguments: argparse.Namespace) -> list[str]:
    if arguments.codec is None:
        return []
    if arguments.hosts not in (1, *plan.ranks("--ranks", arguments.ranks)):
        raise ConfigError(
            f"--codec with --hosts {arguments.hosts}; accepted: 1, or as many as ranks. The cost "
            "model does not know codecs on hosts of several ranks"
        )
    codecs = [codec_text(name) for name in arguments.codec.split("+")]
    for codec in codecs:
        Options(codec=codec)  # refuses what there is not
    return codecs


def run(arguments: argparse.Namespace) -> int:
    """Run the command.

    Raises
    ------
    ConfigError
        For arguments that cannot be used; the message names what is accepted.
    HoldfastError
        When a rank fails.
    """
    if arguments.topology is not None:
        arguments.sizes = arguments.sizes or plan_topology.DEFAULT_SIZES
        return plan_topology.run(arguments)
    if arguments.steps is not None or arguments.without or arguments.root or arguments.exact:
        raise ConfigError("--steps, --without, --root and --exact go with --topology")
    arguments.sizes = arguments.sizes or _SIZES
    numbers = plan.ranks("--ranks", arguments.ranks)
    if not 1 <= arguments.hosts <= min(numbers):
        raise ConfigError(f"--hosts {arguments.hosts}; accepted: 1 to the number of ranks")
    if arguments.output is not None and not arguments.measure:
        raise ConfigError("--output goes with --measure")
    sizes = [plan.parse_size(text) for text in arguments.sizes.split(",")]
    collectives = plan.chosen("--collectives", arguments.collectives, COLLECTIVES)
    transports = plan.chosen("--transport", arguments.transport, _TRANSPORTS)
    if arguments.hosts > 1:
        transports = ("tcp",)
    table = _read(arguments.plan)
    codecs = _codecs(arguments)
    if arguments.measure:
        table = _measure(arguments, numbers, sizes, table)
    if not arguments.json:
        print(HEADER)
    for ranks in numbers:
        for transport in transports:
            for collective in collectives:
                for size in sizes:
                    choice = choose(collective, ranks, arguments.hosts, transport, size, table)
                    print(json.dumps(asdict(choice)) if arguments.json else choice.line())
        for codec in codecs:
            gain = codec_gain.gain(ranks, codec, table)
            print(json.dumps(asdict(gain)) if arguments.json else gain.line())
    return 0
