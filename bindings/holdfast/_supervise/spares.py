"""Processes that have imported torch already, and take over from a rank that has died.

A spare is a child of the supervisor as ranks are, and only waits (spare.py): it has made no thread
of its own, and knows no device, until it is told to be a rank. So nothing is forked that a library
has begun to use.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from holdfast import _ends

MOST = 64
# The one that takes over has the processor for itself so long; then another is made.
_LATER_S = 2.0
_HAND_OVER_S = 5.0
# An import that fails does so again.
_MOST_FAILURES = 3


class Spares:
    """A number of spares.

    Parameters
    ----------
    count : int
        How many wait.
    command : sequence of str
        What ranks run: a script, or ``-m`` and a module, and arguments.
    imports : sequence of str
        Modules that they import beside torch's and ours.
    env : mapping
        What all ranks have in their environment.
    with_pipes : bool
        Output goes into pipes.
    """

    def __init__(
        self,
        count: int,
        command: Sequence[str],
        imports: Sequence[str],
        env: Mapping[str, str],
        *,
        with_pipes: bool,
    ) -> None:
        self._count = count
        self._command = [sys.executable, "-m", "holdfast._supervise.spare"]
        self._arguments = [",".join(imports), *command]
        self._env = dict(env)
        self._output = subprocess.PIPE if with_pipes else None
        self._ask = _ends.die_with_launcher()
        self._waiting: list[tuple[subprocess.Popen[bytes], socket.socket]] = []
        self._failures = 0
        self._due = -1.0

    def tend(self) -> float | None:
        """Make those that are missing, if it is time; return when it will be, if one is missing."""
        for process, channel in list(self._waiting):
            if process.poll() is not None:
                self._drop(process, channel)
                self._failures += 1
        if len(self._waiting) >= self._count or self._failures >= _MOST_FAILURES:
            return None
        if time.monotonic() < self._due:
            return self._due
        while len(self._waiting) < self._count:
            self._make()
        return None

    def take(self, env: Mapping[str, str]) -> subprocess.Popen[bytes] | None:
        """Have one be a rank with this environment; None: none is ready."""
        self._due = time.monotonic() + _LATER_S
        for process, channel in list(self._waiting):
            if not _is_ready(channel):
                continue
            self._waiting.remove((process, channel))
            try:
                with channel:
                    channel.settimeout(_HAND_OVER_S)
                    channel.sendall(json.dumps(dict(env)).encode())
            except OSError:
                self._drop(process, channel)
                continue
            return process
        return None

    def close(self) -> None:
        """End all that wait."""
        for process, channel in self._waiting:
            process.kill()
            self._drop(process, channel)
        self._waiting.clear()
        self._count = 0

    def _make(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(
                [*self._command, str(theirs.fileno()), *self._arguments],
                env=self._env,
                stdout=self._output,
                stderr=self._output,
                pass_fds=[theirs.fileno()],
                preexec_fn=self._ask,
            )
        self._waiting.append((process, ours))

    def _drop(self, process: subprocess.Popen[bytes], channel: socket.socket) -> None:
        with contextlib.suppress(ValueError):
            self._waiting.remove((process, channel))
        channel.close()
        process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def _is_ready(channel: socket.socket) -> bool:
    """Look whether it has said so: it is asked once, as a byte that is left would be an error."""
    with contextlib.suppress(OSError):
        return len(channel.recv(1, socket.MSG_DONTWAIT)) == 1
    return False


def take_over(channel: socket.socket) -> None:
    """Wait, in a spare, for its environment; ends the process where there is none to come."""
    with channel:
        channel.sendall(b"r")
        # The supervisor's end is this one's, too.
        said = b"".join(iter(lambda: channel.recv(1 << 16), b""))
    if not said:
        os._exit(0)
    os.environ.clear()
    os.environ.update(json.loads(said))
