"""Builds the C program for each MPI, has them take turns, and compares what they print."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast import _info, _mpi
from holdfast.comm.bench import report
from holdfast.comm.bench.mpi import launchers
from holdfast.comm.bench.mpi.rows import HEADER, OURS, Row, compare
from holdfast.errors import ConfigError, HoldfastError

SETS = ("messages", "pack", "halo", "collectives", "calls")
# mpi: whichever is found.
PEERS = ("mpi", "mpich", "openmpi")
# Packing is one rank's own work; ranks that wait for it would take its core.
_ALONE = ("pack",)
# What other MPIs have no part in: what MPI's manner costs beside holdfast.h.
_OURS_ALONE = ("calls",)
SOURCES = sorted(Path(__file__).parent.glob("*.c"))
_FLAGS = ("-std=gnu11", "-O3", "-march=native")
# One run of one set; a set takes seconds, unless ranks share cores with much else.
_RUN_S = 600.0
_BUILD_S = 120.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is measured.

    Parameters
    ----------
    numbers : sequence of int
        Of ranks.
    sets : sequence of str
        Of SETS.
    sizes : sequence of int
        In bytes: of cases that have a size, those of these alone; empty: all of them.
    rounds : int
        Turns of each contestant.
    """

    numbers: Sequence[int]
    sets: Sequence[str]
    sizes: Sequence[int]
    rounds: int

    def worlds(self) -> list[tuple[str, int]]:
        """Return each set with each number of ranks that it is measured with."""
        alone = [(what, 1) for what in self.sets if what in _ALONE]
        rest = [what for what in self.sets if what not in _ALONE]
        return alone + [(what, ranks) for ranks in self.numbers for what in rest]


@dataclass(frozen=True, slots=True)
class Contestant:
    """An MPI, and the program that was built for it; without a launcher, Holdfast's."""

    program: Path
    launcher: launchers.Launcher | None = None

    @property
    def name(self) -> str:
        """What rows call it."""
        return self.launcher.name if self.launcher else OURS

    def commands(self, ranks: int) -> dict[str, list[str]]:
        """Return what starts it, by the options that may make it faster or slower."""
        ending = ["-n", str(ranks), str(self.program)]
        if self.launcher is None:
            return {"": [sys.executable, "-m", "holdfast.cli", "run", *ending]}
        usable = [s for s in self.launcher.settings[:-1] if self.launcher.starts(s, ranks)]
        usable.append(self.launcher.settings[-1])
        return {" ".join(s): [*self.launcher.command(s), *ending] for s in usable}


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


def _build(command: Sequence[str], program: Path) -> Path:
    _run(command, _BUILD_S, f"compiling for {program.name}")
    return program


def _ours(folder: Path) -> Contestant:
    if shutil.which("cc") is None:
        raise ConfigError("holdfast bench --api mpi compiles a C program: no cc on PATH")
    made = folder / OURS
    own = shlex.split(_info.build_flags(compiler=True, linker=True))
    arguments = [*_FLAGS, "-DWITH_HOLDFAST", *map(str, SOURCES), *own, "-o", str(made)]
    return Contestant(_build(_mpi.compiler_command("cc", arguments), made))


def _peer(launcher: launchers.Launcher, folder: Path) -> Contestant:
    if not launcher.compiler.is_file():
        raise ConfigError(f"{launcher.path}: there is no {launcher.compiler} beside it")
    made = folder / launcher.name
    command = [str(launcher.compiler), *_FLAGS, *map(str, SOURCES), "-o", str(made)]
    return Contestant(_build(command, made), launcher)


def _named(peers: str) -> list[str]:
    """Return the peers that are named; empty: whatever is there."""
    names = [name.strip() for name in peers.split(",") if name.strip()]
    if names == ["all"]:
        return []
    unknown = [name for name in names if name not in PEERS]
    if unknown or not names:
        raise ConfigError(
            f"--peers {peers!r} with --api mpi; accepted: all, none, {', '.join(PEERS)}"
        )
    return names


def _found(mpiexec: str | None, names: Sequence[str]) -> list[launchers.Launcher]:
    """Return the launchers: those that are given, or else those that are installed."""
    if mpiexec is not None:
        return [launchers.ask(path) for path in mpiexec.split(",")]
    searched = ["" if name == "mpi" else name for name in names] or [*PEERS[1:], ""]
    paths = [path for name in searched if (path := launchers.find(name)) is not None]
    return [launchers.ask(path) for path in dict.fromkeys(paths)]


def peers_of(peers: str, mpiexec: str | None) -> list[launchers.Launcher]:
    """Return the launchers of the peers.

    Parameters
    ----------
    peers : str
        ``all`` that are there, ``none``, or of PEERS, with commas.
    mpiexec : str, optional
        Their ``mpiexec``, with commas; None: those that are found.

    Raises
    ------
    ConfigError
        For another name, or when one that is named is not there.
    """
    if peers == "none":
        return []
    names = _named(peers)
    found = _found(mpiexec, names)
    there = [launcher.name for launcher in found]
    if len(set(there)) < len(there):
        raise ConfigError(f"--mpiexec {mpiexec}; accepted: one of each MPI, these are {there}")
    for name in names:
        if name not in there and not (name == "mpi" and there):
            given = f" (--mpiexec {mpiexec} is of {', '.join(there)})" if mpiexec else ""
            raise ConfigError(
                f"--peers {peers}: no mpiexec of {name}{given}; accepted: peers whose mpiexec is "
                "beside this Python, on PATH, or named by --mpiexec"
            )
    if not names and mpiexec is None:
        for name in PEERS[1:]:
            if name not in there:
                print(f"no mpiexec of {name}: measuring without it", file=sys.stderr)
    return [one for one in found if not names or one.name in names or "mpi" in names]


def _turn(contestant: Contestant, ranks: int, what: str, sizes: str, rows: list[Row]) -> None:
    """Run one set over one MPI, with each setting, and add the times to its rows."""
    known = {(row.name, row.size, row.contestant): row for row in rows}
    for setting, command in contestant.commands(ranks).items():
        arguments = [what, sizes] if sizes else [what]
        told = _run([*command, *arguments], _RUN_S, f"{what} over {contestant.name}")
        for words in map(str.split, told.splitlines()):
            if len(words) not in (4, 5) or not words[1].isdecimal():
                continue  # what a launcher says
            name, size, least, middle = words[:4]
            who = "/".join([contestant.name, *words[4:]])
            key = (name, int(size), who)
            if key not in known:
                known[key] = Row(*key, ranks)
                rows.append(known[key])
            known[key].add(setting, float(least), float(middle))


def measure(made: Sequence[Contestant], what: str, ranks: int, wanted: Wanted) -> list[Row]:
    """Return the rows of one set at one number of ranks, case by case."""
    sizes = ",".join(map(str, wanted.sizes))
    taking_part = made[:1] if what in _OURS_ALONE else made
    rows: list[Row] = []
    for turn in range(wanted.rounds):
        # Whoever goes first meets another machine than who goes last.
        for contestant in taking_part if turn % 2 == 0 else reversed(taking_part):
            _turn(contestant, ranks, what, sizes, rows)
    return compare(rows)


def run(wanted: Wanted, peers: str, mpiexec: str | None, *, as_json: bool) -> int:
    """Run the command.

    Raises
    ------
    ConfigError
        As `peers_of`, without a C compiler or a peer's ``mpicc``, and where nothing is measured.
    HoldfastError
        When the program cannot be compiled, or a run fails.
    """
    others = peers_of(peers, mpiexec)
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name:
        folder = Path(name)
        made = [_ours(folder), *(_peer(launcher, folder) for launcher in others)]
        if not as_json:
            print(HEADER, flush=True)
        worlds, any_row = wanted.worlds(), False
        for done, (what, ranks) in enumerate(worlds, 1):
            for row in measure(made, what, ranks, wanted):
                print(json.dumps(row.as_json()) if as_json else row.line(), flush=True)
                any_row = True
            report.progress(done, len(worlds))
    if not any_row:
        listed = ",".join(map(str, wanted.sizes))
        raise ConfigError(
            f"no case of {', '.join(wanted.sets)} with {max(wanted.numbers)} ranks"
            + (f" has --sizes {listed}; without it, all are measured" if listed else "")
        )
    return 0
