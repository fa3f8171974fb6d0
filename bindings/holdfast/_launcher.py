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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Any

from holdfast.errors import ConfigError

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


class _Comebacks:
    """Which ranks may be started again: the job must go on meanwhile, in somebody else."""

    def __init__(
        self, processes: list[subprocess.Popen[bytes]], each: int, stopping: threading.Event
    ) -> None:
        self._processes = processes
        self._left = [each] * len(processes)
        self._last = [-math.inf] * len(processes)
        self._stopping = stopping

    def may(self, rank: int, status: int) -> bool:
        """Count one more start of the rank, if there may be one."""
        now = time.monotonic()
        # Not a loss, which comes from outside, but an error that it would make again.
        if status > 0 and now - self._last[rank] < _SETTLED_S:
            print(f"holdfast run: rank {rank} failed again at once", file=sys.stderr)
            return False
        goes_on = any(
            process.poll() is None and now - last >= _SETTLED_S
            for other, (process, last) in enumerate(zip(self._processes, self._last, strict=True))
            if other != rank
        )
        if self._left[rank] == 0 or not goes_on or self._stopping.is_set():
            return False
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
    """Where the ranks find each other."""

    directory: str
    port: int
    store: Any  # torch's, if it is held here


@dataclass(frozen=True, slots=True)
class Job:
    """N ranks of one script.

    Parameters
    ----------
    ranks : int
        How many.
    command : sequence of str
        Script and arguments.
    tag_output : bool
        Begin every line of output with its rank.
    grace_s : float
        Seconds for the others to end by themselves after one has failed.
    respawns : int
        How often a rank that failed is started again; it takes its vacant rank.
    """

    ranks: int
    command: Sequence[str]
    tag_output: bool
    grace_s: float
    respawns: int = 0

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
        if not Path(self.command[0]).is_file():
            raise ConfigError(f"no script {self.command[0]!r}")
        directory = tempfile.mkdtemp(prefix="holdfast-run-")
        # Held here when ranks may come back: one that rank 0 holds dies with it.
        store = _torch_store() if self.respawns > 0 else None
        try:
            if store is not None:
                return self._run_in(_Meeting(directory, int(store.port), store))
            with _hold_port() as holder:
                return self._run_in(_Meeting(directory, holder.getsockname()[1], None))
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def _run_in(self, meeting: _Meeting) -> int:
        processes: list[subprocess.Popen[bytes]] = []
        tags: list[threading.Thread] = []
        # A signal may come while ranks are still being started: the list is read when it does.
        stopping = threading.Event()
        restore = _forward_signals(processes, stopping)
        try:
            for rank in range(self.ranks):
                processes.append(self._start(rank, meeting))
                tags += _tag_output(rank, processes[-1])
            return self._watch(processes, tags, meeting, stopping)
        finally:
            _end(processes)
            for tag in tags:
                # Bounded: a process that a rank has left behind may hold the pipe open.
                tag.join(_LAST_WORDS_S)
            for number, handler in restore.items():
                signal.signal(number, handler)

    def _start(self, rank: int, meeting: _Meeting) -> subprocess.Popen[bytes]:
        env = dict(
            os.environ,
            RANK=str(rank),
            WORLD_SIZE=str(self.ranks),
            LOCAL_RANK=str(rank),
            LOCAL_WORLD_SIZE=str(self.ranks),
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(meeting.port),
            HOLDFAST_STORE=Path(meeting.directory).as_uri(),
        )
        if meeting.store is not None:
            # As torchrun says it: torch's env:// then looks for the store, and makes none.
            env |= {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"}
        if self.tag_output:
            # Into a pipe Python would write late; the lines are put together here.
            env["PYTHONUNBUFFERED"] = "1"
        output = subprocess.PIPE if self.tag_output else None
        return subprocess.Popen(
            [*_interpreter(self.command[0]), *self.command], env=env, stdout=output, stderr=output
        )

    def _watch(
        self,
        processes: list[subprocess.Popen[bytes]],
        tags: list[threading.Thread],
        meeting: _Meeting,
        stopping: threading.Event,
    ) -> int:
        """Wait for all; after a failure give the others their grace, then end them."""
        ends: queue.SimpleQueue[int] = queue.SimpleQueue()
        for rank, process in enumerate(processes):
            threading.Thread(target=_await, args=(rank, process, ends), daemon=True).start()
        comebacks = _Comebacks(processes, self.respawns, stopping)
        first_failure = 0
        deadline: float | None = None
        running = len(processes)
        while running > 0:
            try:
                rank = ends.get(timeout=_left(deadline))
            except queue.Empty:
                _end(processes)
                deadline = None
                continue
            running -= 1
            status = processes[rank].wait()
            # Those that we ended ourselves, after the first failure's grace, are no news.
            if status == 0 or (first_failure != 0 and deadline is None):
                continue
            print(f"holdfast run: rank {rank} {_how(status)}", file=sys.stderr)
            if first_failure == 0 and comebacks.may(rank, status):
                running += 1
                processes[rank] = self._start(rank, meeting)
                tags += _tag_output(rank, processes[rank])
                print(f"holdfast run: rank {rank} is started again", file=sys.stderr)
                threading.Thread(
                    target=_await, args=(rank, processes[rank], ends), daemon=True
                ).start()
                continue
            if first_failure == 0:
                first_failure = status
                deadline = time.monotonic() + self.grace_s
        return 128 - first_failure if first_failure < 0 else first_failure


def _interpreter(script: str) -> list[str]:
    """Programs run themselves; everything else is Python's."""
    is_program = os.access(script, os.X_OK) and not script.endswith(".py")
    return [] if is_program else [sys.executable]


def _await(rank: int, process: subprocess.Popen[bytes], ends: queue.SimpleQueue[int]) -> None:
    process.wait()
    ends.put(rank)


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def _forward_signals(
    processes: list[subprocess.Popen[bytes]], stopping: threading.Event
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


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
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


def _tag_output(rank: int, process: subprocess.Popen[bytes]) -> list[threading.Thread]:
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
