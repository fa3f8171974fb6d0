"""``holdfast run``: the ranks of a job on this host, and where they meet."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from holdfast import _ends, _mpi
from holdfast._supervise import torch_store
from holdfast._supervise.comebacks import Rules
from holdfast._supervise.processes import Processes, is_program, look_up
from holdfast._supervise.spares import MOST as MOST_SPARES
from holdfast._supervise.spares import Spares
from holdfast._supervise.supervisor import Supervisor
from holdfast.errors import ConfigError

_MAX_RANKS = 1024


def _hold_port() -> socket.socket:
    """Bind a port, without listening.

    As long as the socket is open, the system gives the port to nobody who takes any; rank 0, which
    asks for this one, may listen there, as it sets SO_REUSEADDR, too.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    return holder


@dataclass(frozen=True, slots=True)
class _Meeting:
    """Where the ranks find each other in one life of the job."""

    life: int
    directory: str
    port: int
    store: Any  # torch's, if it is held here


class _World:
    """All ranks of a job, and where they meet."""

    def __init__(self, job: Job, mpi: _mpi.Setting, directory: str, port: int) -> None:
        self._job = job
        self._directory = directory
        self._port = port  # where nobody comes back, rank 0 keeps the store there
        witness = _ends.Witness(Path(directory) / "witness")
        # By which ranks find their keepers again; a name of the user's does in the next run, too.
        name = os.environ.get("HOLDFAST_JOB") or f"run-{uuid.uuid4().hex}"
        own = {**mpi.environment, **witness.environment, "HOLDFAST_JOB": name}
        self._environment = {**os.environ, **own}
        if job.tag_output:
            # Into a pipe Python would write late; the lines are put together here.
            self._environment["PYTHONUNBUFFERED"] = "1"
        self._spares = Spares(
            job.spares,
            job.command,
            job.spare_imports,
            self._environment,
            with_pipes=job.tag_output,
        )
        self.processes = Processes(
            [f"rank {rank}" for rank in range(job.ranks)],
            job.command,
            witness,
            tags=[str(rank) for rank in range(job.ranks)] if job.tag_output else (),
            spares=self._spares,
        )
        self._meeting = self._meet(0)

    def _meet(self, life: int) -> _Meeting:
        """Make a place where nobody has been: an earlier life's cards name processes long dead."""
        # Held here when ranks may come back: one that rank 0 holds dies with it.
        store = torch_store.keep("127.0.0.1", 0) if self._job.respawns > 0 else None
        port = self._port if store is None else int(store.port)
        return _Meeting(life, f"{self._directory}/{life}", port, store)

    def start(self, rank: int) -> None:
        """Start a rank, for the first time or again."""
        job, meeting = self._job, self._meeting
        env = dict(
            self._environment,
            RANK=str(rank),
            WORLD_SIZE=str(job.ranks),
            LOCAL_RANK=str(rank),
            LOCAL_WORLD_SIZE=str(job.ranks),
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(meeting.port),
            HOLDFAST_STORE=Path(meeting.directory).as_uri(),
        )
        if meeting.store is not None:
            # As torchrun says it: torch's env:// then looks for the store, and makes none.
            env["TORCHELASTIC_USE_AGENT_STORE"] = "True"
            env["TORCHELASTIC_RESTART_COUNT"] = str(meeting.life)
        self.processes.start(rank, env)

    def start_all(self) -> None:
        """End what still runs, and begin the job's next life."""
        self.processes.end()
        self._meeting = self._meet(self._meeting.life + 1)
        for rank in range(self._job.ranks):
            self.start(rank)

    def tend(self) -> float | None:
        """Have as many spares as there should be."""
        return self._spares.tend()


@dataclass(frozen=True, slots=True)
class Job:
    """N ranks of one script, module or program.

    Parameters
    ----------
    ranks : int
        How many.
    command : sequence of str
        A path, a name to look up in PATH, or "-m" and a module's name; and arguments.
    tag_output : bool
        Begin every line of output with its rank.
    grace_s : float
        Seconds for the others to end by themselves after one has failed.
    respawns : int
        How often a rank that failed is started again; it takes its vacant rank. When none is left
        that it could come back to, all are started again, which counts once for each.
    mpi : str
        Which ABI of MPI the program is given a library for: one of _mpi.CHOICES.
    spares : int
        Processes that have imported torch, and take over from ranks that failed.
    spare_imports : sequence of str
        Modules that they import beside.
    """

    ranks: int
    command: Sequence[str]
    tag_output: bool
    grace_s: float
    respawns: int = 0
    mpi: str = "auto"
    spares: int = 0
    spare_imports: Sequence[str] = ()

    def run(self) -> int:
        """Run to the end.

        Returns
        -------
        int
            0, or the status of the first rank that failed (128 + signal when a signal ended it).

        Raises
        ------
        ConfigError
            For a number of ranks or a script that cannot be run.
        """
        if not 1 <= self.ranks <= _MAX_RANKS:
            raise ConfigError(f"-n {self.ranks}; accepted: 1 to {_MAX_RANKS}")
        command = look_up(self.command)
        self._check_spares(command[0])
        mpi = _mpi.prepare(command, self.mpi, os.environ)
        directory = tempfile.mkdtemp(prefix="holdfast-run-")
        try:
            with _hold_port() as holder:
                job = replace(self, command=command)
                world = _World(job, mpi, directory, holder.getsockname()[1])
                rules = Rules(self.respawns)
                return Supervisor("holdfast run", world, rules, self.grace_s).run()
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def _check_spares(self, script: str) -> None:
        if not 0 <= self.spares <= MOST_SPARES:
            raise ConfigError(f"--spares {self.spares}; accepted: 0 to {MOST_SPARES}")
        if self.spares and not self.respawns:
            raise ConfigError(
                f"--spares {self.spares}: they take over from ranks that failed; accepted: with "
                "--respawn and --max-respawns above 0"
            )
        if self.spares and is_program(script):
            raise ConfigError(
                f"--spares {self.spares} with {script!r}, which runs by itself; accepted: a script "
                "of Python (*.py), or -m and a module"
            )
