"""``holdfast respawn``: supervises one rank that another launcher has started.

The launcher's agent never sees the rank die: the supervisor starts it again, with the same rank, in
the same job, and it takes its vacant place.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast import _ends
from holdfast._job import job_name
from holdfast._supervise.comebacks import Rules
from holdfast._supervise.processes import Processes, look_up
from holdfast._supervise.supervisor import Supervisor
from holdfast.errors import ConfigError

EXAMPLES = """example: torchrun --nproc-per-node 4 --no-python holdfast respawn train.py --epochs 3
example: srun holdfast respawn -m my_package.train
example: holdfast respawn --max-restarts 20 --on signal train.py"""

# What other launchers call the variables of torch: Slurm, indexed jobs of Kubernetes, Open MPI, and
# Hydra, of MPICH and Intel MPI.
_NAMES = {
    "RANK": ("SLURM_PROCID", "JOB_COMPLETION_INDEX", "OMPI_COMM_WORLD_RANK", "PMI_RANK"),
    "WORLD_SIZE": ("SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"),
    "LOCAL_RANK": ("SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"),
}
# Seconds that a program has to end by itself: it is the one that has failed.
_GRACE_S = 5.0
# Of a job's end or a checkpoint, as Slurm's --signal has it; the program says what it does then.
_PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments, and what runs it."""
    parser.add_argument(
        "--max-restarts",
        type=int,
        default=3,
        metavar="N",
        help="how often the program is started again at most (default: 3); never when it has "
        "exited with a status of its own within 10 s of that",
    )
    parser.add_argument(
        "--backoff",
        type=float,
        default=1.0,
        metavar="SECONDS",
        help="time before a program is started again that has died within 10 s of its last "
        "restart; doubled each further time, up to 60 s (default: 1)",
    )
    parser.add_argument(
        "--on",
        choices=("any", "signal"),
        default="any",
        help="deaths after which it is started again: by a signal or with a status that is not 0, "
        "or by a signal alone (default: any)",
    )
    parser.add_argument(
        "--store",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="beside rank 0, keep torch's store at MASTER_ADDR and MASTER_PORT, unless the "
        "launcher's agent does, as torchrun's (default: --store)",
    )
    parser.add_argument(
        "-m",
        dest="module",
        nargs=argparse.REMAINDER,
        metavar="MODULE",
        help="Python module to run, and its arguments",
    )
    parser.add_argument(
        "script", nargs="?", help="Python script (*.py), or program, by its path or name in PATH"
    )
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    parser.set_defaults(run=_command)


def _command(given: argparse.Namespace) -> int:
    command = ["-m", *given.module] if given.module else [given.script]
    if command in (["-m"], [None]):
        raise ConfigError("nothing to run; accepted: a script, a program, or -m and a module")
    if given.max_restarts < 0:
        raise ConfigError(f"--max-restarts {given.max_restarts}; accepted: 0 and more")
    if not given.backoff >= 0:
        raise ConfigError(f"--backoff {given.backoff}; accepted: seconds, 0 and more")
    rules = Rules(given.max_restarts, given.backoff, given.on == "signal", others_elsewhere=True)
    return run((*command, *given.arguments), rules, keeps_store=given.store)


def run(command: Sequence[str], rules: Rules, *, keeps_store: bool) -> int:
    """Run a program to its end, whatever kills it meanwhile.

    Parameters
    ----------
    command : sequence of str
        A path, a name to look up in PATH, or "-m" and a module's name; and arguments.
    rules : Rules
        When it is started again.
    keeps_store : bool
        Keep torch's store beside rank 0 if no agent does.

    Returns
    -------
    int
        The program's status, 128 + signal when a signal ended it.

    Raises
    ------
    ConfigError
        For a script that cannot be run.
    """
    found = look_up(command)
    environment = environment_of(os.environ)
    directory = tempfile.mkdtemp(prefix="holdfast-respawn-")
    try:
        world = _OneRank(found, environment, directory)
        if keeps_store:
            world.keep_store(environment)
        try:
            return Supervisor("holdfast respawn", world, rules, _GRACE_S, _PASSED_ON).run()
        finally:
            world.close()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def environment_of(env: Mapping[str, str]) -> dict[str, str]:
    """Return what a rank is to have in its environment, by that of its launcher.

    Parameters
    ----------
    env : mapping
        The launcher's: RANK and others, by its own names or torch's.
    """
    found = dict(env)
    for name, others in _NAMES.items():
        for other in others:
            if other in env:
                found.setdefault(name, env[other])
    # A program without snapshots needs no name.
    with contextlib.suppress(ConfigError):
        found["HOLDFAST_JOB"] = job_name(found)
    return found


def needs_store(env: Mapping[str, str]) -> bool:
    """Say whether ranks meet at a store of torch's that one of them would keep, and lose."""
    return (
        env.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
        and "MASTER_ADDR" in env
        and env.get("MASTER_PORT", "").isdecimal()
        and importlib.util.find_spec("torch") is not None
    )


def _is_in_foreground() -> bool:
    """Say whether a terminal is this process group's, which then may read from it."""
    with contextlib.suppress(OSError):
        return os.tcgetpgrp(0) == os.getpgrp()
    return False


class _OneRank:
    """A rank of a job whose others are somewhere else."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], directory: str
    ) -> None:
        witness = _ends.Witness(Path(directory) / "witness")
        rank = environment.get("RANK", "")
        self._environment = {**environment, **witness.environment}
        self._store: subprocess.Popen[bytes] | None = None
        names = [f"rank {rank}" if rank else "the program"]
        own_group = not _is_in_foreground()
        self.processes = Processes(names, command, witness, own_group=own_group)

    def keep_store(self, env: Mapping[str, str]) -> None:
        """Have the program find torch's store, which beside rank 0 is kept here."""
        if not needs_store(env):
            return
        # As torchrun says it: torch's env:// then looks for the store, and makes none.
        self._environment["TORCHELASTIC_USE_AGENT_STORE"] = "True"
        self._environment.setdefault("TORCHELASTIC_RESTART_COUNT", "0")
        if env.get("RANK") != "0":
            return
        place = [env["MASTER_ADDR"], env["MASTER_PORT"]]
        self._store = subprocess.Popen(
            [sys.executable, "-m", "holdfast._supervise.torch_store", *place],
            preexec_fn=_ends.die_with_launcher(),
        )
        threading.Thread(target=self._await_store, args=(self._store,), daemon=True).start()

    def close(self) -> None:
        """End the store."""
        store, self._store = self._store, None
        if store is not None:
            store.kill()
            store.wait()

    def start(self, rank: int) -> None:
        """Start the program, for the first time or again."""
        self.processes.start(rank, self._environment)

    def start_all(self) -> None:
        """Begin anew: it is the one."""
        self.start(0)

    def tend(self) -> float | None:
        """Nothing is behind it."""
        return None

    def _await_store(self, store: subprocess.Popen[bytes]) -> None:
        """End the program if the store ends first: nobody would come in again."""
        store.wait()
        if self._store is not None:
            print("holdfast respawn: torch's store has ended", file=sys.stderr, flush=True)
            self.processes.stopping.set()
            self.processes.end()
