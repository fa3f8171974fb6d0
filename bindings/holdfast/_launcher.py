"""``holdfast run``: the ranks of a job on this host, and what becomes of them."""

from __future__ import annotations

import math
import os
import queue
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from pathlib import Path
from types import FrameType
from typing import IO, Any, TypeAlias

from holdfast import _ends, _mpi
from holdfast.errors import ConfigError

_Process: TypeAlias = subprocess.Popen[bytes]

_MAX_RANKS = 1024
# A rank that runs for so long since it was started again is part of the job.
_SETTLED_S = 10.0
# Time for the last lines of ranks that have ended.
_LAST_WORDS_S = 2.0


def _hold_port() -> socket.socket:
    """Bind a port, without listening.

    As long as the socket is open, the system gives the port to nobody who takes any; rank 0, which
    asks for this one, may listen there, as it sets SO_REUSEADDR, too.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    return holder


def _how(status: int) -> str:
    if status >= 0:
        return f"exited with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"


class _Comeback(Enum):
    """What is started again when a rank has failed."""

    NOTHING = auto()
    RANK = auto()
    ALL = auto()


class _Comebacks:
    """Which ranks may be started again: one while the job goes on in somebody else, or all."""

    def __init__(self, processes: list[_Process], each: int, stopping: threading.Event) -> None:
        self._processes = processes
        self._left = [each] * len(processes)
        self._last = [-math.inf] * len(processes)
        # By rank, when one came back to a world that went on; the others began it.
        self._came: dict[int, float] = {}
        self._stopping = stopping

    def judge(self, rank: int, status: int) -> _Comeback:
        """Say what may be started again, and count it."""
        now = time.monotonic()
        # Not a loss, which comes from outside, but an error that it would make again.
        if status > 0 and now - self._last[rank] < _SETTLED_S:
            print(f"holdfast run: rank {rank} failed again at once", file=sys.stderr)
            return _Comeback.NOTHING
        if self._stopping.is_set():
            return _Comeback.NOTHING
        # Has a part in the job, or will never have: it was started again a moment ago.
        parts = [r for r in range(len(self._processes)) if self._has_part(r, now)]
        if any(self._processes[r].poll() is None for r in parts if r != rank):
            if not self._count([rank], now):
                return _Comeback.NOTHING
            self._came[rank] = now
            return _Comeback.RANK
        # Where some have ended well the job has, and would begin anew.
        is_over = any(process.poll() == 0 for process in self._processes)
        # Those that were started again a moment ago have been counted for this loss.
        if is_over or not self._count(parts, now):
            return _Comeback.NOTHING
        self._last = [now] * len(self._processes)
        self._came.clear()
        return _Comeback.ALL

    def _has_part(self, rank: int, now: float) -> bool:
        return now - self._came.get(rank, -math.inf) >= _SETTLED_S

    def _count(self, ranks: Sequence[int], now: float) -> bool:
        """Take one start of each, if all of them have one left."""
        if any(self._left[rank] == 0 for rank in ranks):
            return False
        for rank in ranks:
            self._left[rank] -= 1
            self._last[rank] = now
        return True


def _torch_store() -> Any:
    """Keep a store of torch's, where torch is installed; else None."""
    try:
        from torch.distributed import TCPStore
    except ImportError:
        return None
    return TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)


@dataclass(frozen=True, slots=True)
class _Meeting:
    """Where the ranks find each other in one life of the job."""

    life: int
    directory: str
    port: int
    store: Any  # torch's, if it is held here


class _World:
    """The processes of a job, and where they meet."""

    def __init__(self, job: Job, mpi: _mpi.Setting, directory: str, port: int) -> None:
        self.processes: list[_Process] = []
        self.ends: queue.SimpleQueue[tuple[int, _Process]] = queue.SimpleQueue()
        self._job = job
        self._mpi = mpi
        self._directory = directory
        self._port = port  # where nobody comes back, rank 0 keeps the store there
        self._tags: list[threading.Thread] = []
        self._ask = _ends.die_with_launcher()
        self._witness = _ends.Witness(Path(directory) / "witness")
        self._waits: list[threading.Thread] = []
        # By which ranks find their keepers again; a name of the user's does in the next run, too.
        self._name = os.environ.get("HOLDFAST_JOB") or f"run-{uuid.uuid4().hex}"
        self._meeting = self._meet(0)

    def _meet(self, life: int) -> _Meeting:
        """Make a place where nobody has been: an earlier life's cards name processes long dead."""
        # Held here when ranks may come back: one that rank 0 holds dies with it.
        store = _torch_store() if self._job.respawns > 0 else None
        port = self._port if store is None else int(store.port)
        return _Meeting(life, f"{self._directory}/{life}", port, store)

    def start(self, rank: int) -> None:
        """Start a rank, for the first time or again."""
        job, meeting = self._job, self._meeting
        env = dict(
            os.environ,
            **self._mpi.environment,
            **self._witness.environment,
            HOLDFAST_JOB=self._name,
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
        if job.tag_output:
            # Into a pipe Python would write late; the lines are put together here.
            env["PYTHONUNBUFFERED"] = "1"
        output = subprocess.PIPE if job.tag_output else None
        process = subprocess.Popen(
            [*_interpreter(job.command[0]), *job.command],
            env=env,
            stdout=output,
            stderr=output,
            preexec_fn=self._ask,
        )
        self.processes[rank : rank + 1] = [process]
        self._tags += _tag_output(rank, process)
        self._waits.append(threading.Thread(target=self._await, args=(rank, process), daemon=True))
        self._waits[-1].start()

    def _await(self, rank: int, process: _Process) -> None:
        process.wait()
        self.ends.put((rank, process))
        self._witness.tell(process.pid)

    def start_all(self) -> None:
        """End what still runs, and begin the job's next life."""
        _end(self.processes)
        self._meeting = self._meet(self._meeting.life + 1)
        for rank in range(self._job.ranks):
            self.start(rank)

    def end(self) -> None:
        """End what still runs; its last lines are written."""
        _end(self.processes)
        for last in (*self._tags, *self._waits):
            # Bounded: a process that a rank has left behind may hold the pipe open.
            last.join(_LAST_WORDS_S)


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
    """

    ranks: int
    command: Sequence[str]
    tag_output: bool
    grace_s: float
    respawns: int = 0
    mpi: str = "auto"

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
        command = _look_up(self.command)
        mpi = _mpi.prepare(command, self.mpi, os.environ)
        directory = tempfile.mkdtemp(prefix="holdfast-run-")
        try:
            with _hold_port() as holder:
                job = replace(self, command=command)
                return job._run_in(_World(job, mpi, directory, holder.getsockname()[1]))
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def _run_in(self, world: _World) -> int:
        # A signal may come while ranks are still being started: the list is read when it does.
        stopping = threading.Event()
        restore = _forward_signals(world.processes, stopping)
        try:
            for rank in range(self.ranks):
                world.start(rank)
            return self._watch(world, stopping)
        finally:
            world.end()
            for number, handler in restore.items():
                signal.signal(number, handler)

    def _watch(self, world: _World, stopping: threading.Event) -> int:
        """Wait for all; after a failure give the others their grace, then end them."""
        comebacks = _Comebacks(world.processes, self.respawns, stopping)
        first_failure = 0
        deadline: float | None = None
        # By rank, those whose end is still to come.
        running = dict(enumerate(world.processes))
        while running:
            try:
                rank, process = world.ends.get(timeout=_left(deadline))
            except queue.Empty:
                _end(world.processes)
                deadline = None
                continue
            if running.get(rank) is not process:
                continue  # of an earlier life
            del running[rank]
            status = process.wait()
            # Those that we ended ourselves, after the first failure's grace, are no news.
            if status == 0 or (first_failure != 0 and deadline is None):
                continue
            print(f"holdfast run: rank {rank} {_how(status)}", file=sys.stderr)
            if first_failure != 0:
                continue
            comeback = comebacks.judge(rank, status)
            if comeback is _Comeback.RANK:
                world.start(rank)
                running[rank] = world.processes[rank]
                print(f"holdfast run: rank {rank} is started again", file=sys.stderr)
            elif comeback is _Comeback.ALL:
                print("holdfast run: nobody is left; all ranks are started again", file=sys.stderr)
                world.start_all()
                running = dict(enumerate(world.processes))
                if stopping.is_set():  # by a signal that not all of them can have got
                    _end(world.processes)
            else:
                first_failure = status
                deadline = time.monotonic() + self.grace_s
        return 128 - first_failure if first_failure < 0 else first_failure


def _look_up(command: Sequence[str]) -> tuple[str, ...]:
    """Find a program as a shell does, but for scripts, which need no ./ before their names."""
    name, *arguments = command
    if name == "-m" or Path(name).is_file():
        return tuple(command)
    found = None if "/" in name or name.endswith(".py") else shutil.which(name)
    if found is None:
        raise ConfigError(f"no script {name!r}, and no program of that name in PATH")
    return (found, *arguments)


def _interpreter(script: str) -> list[str]:
    """Programs run themselves; everything else is Python's."""
    is_program = script != "-m" and os.access(script, os.X_OK) and not script.endswith(".py")
    return [] if is_program else [sys.executable]


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def _forward_signals(
    processes: list[_Process], stopping: threading.Event
) -> dict[int, signal._HANDLER]:
    """Pass SIGINT and SIGTERM on to the ranks; return the former handlers."""
    if threading.current_thread() is not threading.main_thread():
        return {}

    def forward(number: int, frame: FrameType | None) -> None:
        stopping.set()
        for process in processes:
            if process.poll() is None:
                process.send_signal(number)

    return {number: signal.signal(number, forward) for number in (signal.SIGINT, signal.SIGTERM)}


def _end(processes: list[_Process]) -> None:
    """End what still runs: politely first, then for good."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    for process in processes:
        try:
            process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _tag_output(rank: int, process: _Process) -> list[threading.Thread]:
    threads = [
        threading.Thread(target=_tag, args=(rank, source, target), daemon=True)
        for source, target in ((process.stdout, sys.stdout), (process.stderr, sys.stderr))
        if source is not None
    ]
    for thread in threads:
        thread.start()
    return threads


def _tag(rank: int, source: IO[bytes], target: IO[str]) -> None:
    for line in source:
        target.write(f"[{rank}] {line.decode(errors='replace')}")
        target.flush()
