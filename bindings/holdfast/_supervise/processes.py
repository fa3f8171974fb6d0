"""The processes that a supervisor has started: what it hears of them, and how they end."""

from __future__ import annotations

import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, TypeAlias

from holdfast import _ends
from holdfast._supervise.spares import Spares
from holdfast.errors import ConfigError

Process: TypeAlias = subprocess.Popen[bytes]
# A process has this long to end by SIGTERM.
_POLITE_S = 2.0
# Time for the last lines of processes that have ended.
_LAST_WORDS_S = 2.0
# Programs are to end by these; the others are passed on alone.
_STOPS = (signal.SIGINT, signal.SIGTERM)


def look_up(command: Sequence[str]) -> tuple[str, ...]:
    """Find a program as a shell does, but for scripts, which need no ./ before their names.

    Raises
    ------
    ConfigError
        There is none.
    """
    name, *arguments = command
    if name == "-m" or Path(name).is_file():
        return tuple(command)
    found = None if "/" in name or name.endswith(".py") else shutil.which(name)
    if found is None:
        raise ConfigError(f"no script {name!r}, and no program of that name in PATH")
    return (found, *arguments)


def is_program(script: str) -> bool:
    """Say whether it runs by itself; everything else is Python's."""
    return script != "-m" and os.access(script, os.X_OK) and not script.endswith(".py")


def how(status: int) -> str:
    """Say how a process has ended."""
    if status >= 0:
        return f"exited with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"


class Processes:
    """One process for each rank, the newest of its lives.

    Parameters
    ----------
    names : sequence of str
        What each is called: ``rank 3``.
    command : sequence of str
        What all of them run, as `look_up` returns it.
    witness : Witness
        Tells the other ranks of their ends.
    tags : sequence of str, optional
        What the lines of each one's output begin with.
    spares : Spares, optional
        Take over from those that are started again.
    own_group : bool
        Each is the first of a process group, so that a signal to the supervisor's group reaches it
        once: from the supervisor.
    """

    def __init__(
        self,
        names: Sequence[str],
        command: Sequence[str],
        witness: _ends.Witness,
        *,
        tags: Sequence[str] = (),
        spares: Spares | None = None,
        own_group: bool = False,
    ) -> None:
        self.names = tuple(names)
        self.all: list[Process] = []
        self.ends: queue.SimpleQueue[tuple[int, Process | None]] = queue.SimpleQueue()
        self.stopping = threading.Event()  # set by a signal that ends all
        self._command = [*([] if is_program(command[0]) else [sys.executable]), *command]
        self._witness = witness
        self._tags = tuple(tags)
        self._spares = spares
        self._own_group = own_group
        self._ask = _ends.die_with_launcher()
        self._readers: list[threading.Thread] = []
        self._waits: list[threading.Thread] = []

    def start(self, index: int, env: Mapping[str, str]) -> None:
        """Start one, for the first time or again."""
        is_again = index < len(self.all)
        process = self._spares.take(env) if is_again and self._spares else None
        if process is None:
            output = subprocess.PIPE if self._tags else None
            process = subprocess.Popen(
                self._command,
                env=env,
                stdout=output,
                stderr=output,
                preexec_fn=self._prepare,
            )
        self.all[index : index + 1] = [process]
        if self._tags:
            self._readers += _tag_output(self._tags[index], process)
        self._waits.append(threading.Thread(target=self._await, args=(index, process), daemon=True))
        self._waits[-1].start()

    def end(self) -> None:
        """End all that still run."""
        end(self.all)

    def close(self) -> None:
        """End all; their last lines are written."""
        self.end()
        if self._spares:
            self._spares.close()
        for last in (*self._readers, *self._waits):
            # Bounded: a process that a rank has left behind may hold the pipe open.
            last.join(_LAST_WORDS_S)

    def forward_signals(self, others: Sequence[signal.Signals] = ()) -> dict[int, signal._HANDLER]:
        """Pass SIGINT, SIGTERM and others on to all; return the former handlers.

        Processes that are being started get theirs, too: who is there is read when a signal comes.
        """
        if threading.current_thread() is not threading.main_thread():
            return {}

        def forward(number: int, frame: FrameType | None) -> None:
            if number in _STOPS:
                self.stopping.set()
                self.ends.put((-1, None))  # wakes who waits
            for process in self.all:
                if process.poll() is None:
                    process.send_signal(number)

        return {number: signal.signal(number, forward) for number in (*_STOPS, *others)}

    def _prepare(self) -> None:
        if self._own_group:
            os.setpgid(0, 0)
        self._ask()

    def _await(self, index: int, process: Process) -> None:
        process.wait()
        self.ends.put((index, process))
        self._witness.tell(process.pid)


def end(processes: Sequence[Process]) -> None:
    """End what still runs: politely first, then for good."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    for process in processes:
        try:
            process.wait(timeout=_POLITE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _tag_output(tag: str, process: Process) -> list[threading.Thread]:
    threads = [
        threading.Thread(target=_tag, args=(tag, source, target), daemon=True)
        for source, target in ((process.stdout, sys.stdout), (process.stderr, sys.stderr))
        if source is not None
    ]
    for thread in threads:
        thread.start()
    return threads


def _tag(tag: str, source: IO[bytes], target: IO[str]) -> None:
    for line in source:
        target.write(f"[{tag}] {line.decode(errors='replace')}")
        target.flush()
