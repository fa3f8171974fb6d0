"""Builds the C program for each MPI, has them take turns, and compares what they print."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from holdfast import __version__, _mpi
from holdfast.comm.bench import report
from holdfast.comm.bench.mpi import launchers
from holdfast.errors import ConfigError, HoldfastError

OURS = "holdfast"
SETS = ("messages", "pack", "halo", "collectives")
SOURCE = Path(__file__).with_name("measure.c")
_FLAGS = ("-std=gnu11", "-O3", "-march=native")
# One run of one set; a set takes seconds, unless ranks share cores with much else.
_RUN_S = 600.0
_BUILD_S = 120.0

HEADER = (
    f"{'ranks':>5} {'case':<24} {'bytes':>6} {'contestant':<10} {'time us':>11} {'p50':>11} "
    f"{'GB/s':>8}  faster than (x)"
)


@dataclass(slots=True)
class Row:
    """One contestant in one case.

    Parameters
    ----------
    name, size : str, int
        The case, as ``measure.c`` prints it; `size` in bytes.
    contestant : str
        ``holdfast``, or a peer's name.
    ranks : int
        How many there were.
    times, middles : list of float
        Microseconds: of each round the least time, and the median.
    ratios : dict of str to float
        Holdfast's rows: each peer's least time by this one's; above 1 Holdfast is faster.
    """

    name: str
    size: int
    contestant: str
    ranks: int
    times: list[float] = field(default_factory=list)
    middles: list[float] = field(default_factory=list)
    ratios: dict[str, float] = field(default_factory=dict)

    @property
    def least(self) -> float:
        """The least time, in microseconds."""
        return min(self.times)

    @property
    def middle(self) -> float:
        """The median of the rounds' medians, in microseconds."""
        return statistics.median(self.middles)

    @property
    def algbw(self) -> float:
        """Bytes by the least time, in GB/s."""
        return self.size / self.least / 1e3

    def as_json(self) -> dict[str, object]:
        """Return what a program reads; the fastest peer is `peer`."""
        best = min(self.ratios, key=lambda peer: self.ratios[peer], default=None)
        return {
            "name": self.name,
            "contestant": self.contestant,
            "ranks": self.ranks,
            "bytes": self.size,
            "algbw": round(self.algbw, 4),
            "time_us": round(self.least, 4),
            "p50_us": round(self.middle, 4),
            "peer": best,
            "ratio": round(self.ratios[best], 3) if best else None,
            "ratios": {peer: round(ratio, 3) for peer, ratio in self.ratios.items()},
            "version": __version__,
        }

    def line(self) -> str:
        """Return a row of the table."""
        ratios = ", ".join(f"{peer} {ratio:.2f}" for peer, ratio in self.ratios.items())
        return (
            f"{self.ranks:>5} {self.name:<24} {report.size_text(self.size):>6} "
            f"{self.contestant:<10} {self.least:>11.2f} {self.middle:>11.2f} "
            f"{self.algbw:>8.2f}  {ratios}"
        )


@dataclass(frozen=True, slots=True)
class Contestant:
    """An MPI, and the program that was built for it."""

    name: str
    command: Callable[[int], Sequence[str]]


def _run(command: Sequence[str], limit: float, what: str) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=limit, check=False, env=os.environ
        )
    except OSError as error:
        raise ConfigError(f"{what}: {error}") from None
    except subprocess.TimeoutExpired:
        raise HoldfastError(f"{what} took more than {limit:.0f} s: {' '.join(command)}") from None
    if done.returncode != 0:
        told = (done.stderr or done.stdout).strip()[-2000:]
        raise HoldfastError(f"{what} failed with status {done.returncode}: {told}")
    return done.stdout


def _ours(folder: Path) -> Contestant:
    if shutil.which("cc") is None:
        raise ConfigError("holdfast bench --api mpi compiles a C program: no cc on PATH")
    made = folder / OURS
    _run(
        _mpi.compiler_command("cc", [*_FLAGS, str(SOURCE), "-o", str(made)]),
        _BUILD_S,
        "compiling for Holdfast",
    )
    start = [sys.executable, "-m", "holdfast.cli", "run"]
    return Contestant(OURS, lambda ranks: [*start, "-n", str(ranks), str(made)])


def _peer(path: str, folder: Path) -> Contestant:
    launcher = launchers.ask(path)
    if not launcher.compiler.is_file():
        raise ConfigError(f"--mpiexec {path}: there is no {launcher.compiler} beside it")
    made = folder / launcher.name
    _run(
        [str(launcher.compiler), *_FLAGS, str(SOURCE), "-o", str(made)],
        _BUILD_S,
        f"compiling for {launcher.name}",
    )
    return Contestant(launcher.name, lambda ranks: [*launcher.command, "-n", str(ranks), str(made)])


def contestants(folder: Path, peers: str, mpiexec: str | None) -> list[Contestant]:
    """Build the program for all of them.

    Parameters
    ----------
    folder : Path
        Where the programs go.
    peers : str
        ``none``, or anything else for those that are there.
    mpiexec : str, optional
        The peers' ``mpiexec``, with commas; None: the one that is found.

    Raises
    ------
    ConfigError
        Without a C compiler, or a peer's ``mpicc``.
    HoldfastError
        When it cannot be compiled.
    """
    found = [_ours(folder)]
    if peers == "none":
        return found
    paths = mpiexec.split(",") if mpiexec else [path for path in [launchers.find()] if path]
    if not paths:
        print("no mpiexec: measuring without another MPI", file=sys.stderr)
    for path in paths:
        found.append(_peer(path, folder))
    names = [contestant.name for contestant in found]
    if len(set(names)) < len(names):
        raise ConfigError(f"--mpiexec {mpiexec}; accepted: one of each MPI, these are {names}")
    return found


def _turn(contestant: Contestant, ranks: int, what: str, rows: dict[tuple[str, ...], Row]) -> None:
    command = [*contestant.command(ranks), what]
    for text in _run(command, _RUN_S, f"{what} over {contestant.name}").splitlines():
        words = text.split()
        if len(words) != 4:
            continue  # what a launcher says
        name, size, least, middle = words
        key = (name, size, contestant.name)
        row = rows.setdefault(key, Row(name, int(size), contestant.name, ranks))
        row.times.append(float(least))
        row.middles.append(float(middle))


def measure(
    made: Sequence[Contestant], ranks: int, sets: Sequence[str], rounds: int
) -> Iterator[list[Row]]:
    """Yield the rows of one set after the other, case by case."""
    for what in sets:
        rows: dict[tuple[str, ...], Row] = {}
        for turn in range(rounds):
            # Whoever goes first meets another machine than who goes last.
            for contestant in made if turn % 2 == 0 else reversed(made):
                _turn(contestant, ranks, what, rows)
        cases: dict[tuple[str, int], list[Row]] = {}
        for row in rows.values():
            cases.setdefault((row.name, row.size), []).append(row)
        for of_case in cases.values():
            ours = next((row for row in of_case if row.contestant == OURS), None)
            of_case.sort(key=lambda row: row.contestant != OURS)
            if ours is not None:
                others = [row for row in of_case if row is not ours]
                ours.ratios = {row.contestant: row.least / ours.least for row in others}
        yield [row for of_case in cases.values() for row in of_case]


def run(
    numbers: Sequence[int],
    sets: Sequence[str],
    peers: str,
    mpiexec: str | None,
    rounds: int,
    *,
    as_json: bool,
) -> int:
    """Run the command.

    Raises
    ------
    ConfigError, HoldfastError
        As `contestants`, and when a run fails.
    """
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        made = contestants(Path(folder), peers, mpiexec)
        if not as_json:
            print(HEADER, flush=True)
        for done, ranks in enumerate(numbers):
            for index, rows in enumerate(measure(made, ranks, sets, rounds), 1):
                for row in rows:
                    print(json.dumps(row.as_json()) if as_json else row.line(), flush=True)
                report.progress(done * len(sets) + index, len(numbers) * len(sets))
    return 0
