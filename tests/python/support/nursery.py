"""Processes that have imported torch already: a rank is forked in milliseconds instead of seconds.

One process, started by the first rank that is asked for, imports everything and never makes a
thread; ranks are its forks. Every rank is a process of its own all the same: it has its own
runtime, and may be killed. It ends when its threads and exit handlers have; with END_WHOLE in its
environment as an interpreter does, which takes ten times as long.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import io
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

_REQUEST_BYTES = 1 << 20
# Pools that numeric libraries make on import would not survive a fork.
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
_IMPORTS = (
    "numpy",
    "torch",
    "torch.distributed.fsdp",
    "torch.distributed.optim",
    "torch.distributed.pipelining",
    "torch.distributed.tensor.parallel",
    "torch.nn.parallel",
    "holdfast",
)


def folders_of(module: str) -> list[Path]:
    """Return where a module of the tests is, by its name alone, and where what it imports is.

    It imports what is beside it and what is beside this file; names are unique in all folders.
    """
    here = Path(__file__).resolve().parent
    return [here, *(path.parent for path in here.parent.glob(f"*/{module}.py"))]


class Child:
    """A forked rank; the part of `subprocess.Popen` that tests use."""

    def __init__(self, pid: int, stdout: io.TextIOWrapper, end: socket.socket) -> None:
        self.pid = pid
        self.stdout = stdout
        self.returncode: int | None = None
        self._end = end
        self._reader: threading.Thread | None = None
        self._text = ""

    def wait(self, timeout: float | None = None) -> int:
        """Return the status, negative for a signal; TimeoutExpired when it does not end in time."""
        if self.returncode is None:
            self._end.settimeout(timeout)
            try:
                word = self._end.recv(4)
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(f"rank {self.pid}", timeout or 0) from None
            assert len(word) == 4, "the process that ranks are forked from has ended"
            self.returncode = os.waitstatus_to_exitcode(struct.unpack("i", word)[0])
            self._end.close()
        return self.returncode

    def poll(self) -> int | None:
        """Return the status, or None while it runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def communicate(self, timeout: float | None = None) -> tuple[str, None]:
        """Return what it has printed that was not read, when it has ended."""
        deadline = None if timeout is None else time.monotonic() + timeout
        if self._reader is None:
            self._reader = threading.Thread(target=self._read, daemon=True)
            self._reader.start()
        self._reader.join(timeout)
        if self._reader.is_alive():
            raise subprocess.TimeoutExpired(f"rank {self.pid}", timeout or 0)
        self.wait(None if deadline is None else max(0.1, deadline - time.monotonic()))
        return self._text, None

    def _read(self) -> None:
        with self.stdout:
            self._text = self.stdout.read()

    def send_signal(self, number: int) -> None:
        """Signal it, if it has not ended."""
        if self.poll() is None:
            # It may have ended since, and been reaped, before its status came.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End it the hard way."""
        self.send_signal(signal.SIGKILL)


@functools.cache
def _nursery() -> socket.socket:
    """Start it; it ends, and all ranks with it, when this process does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
            env={**os.environ, **_ONE_THREAD},
            pass_fds=[theirs.fileno()],
        )
    return ours


def fork(module: str, function: str, env: Mapping[str, str], folder: Path) -> Child:
    """Start `module.function()` in a process of its own.

    Parameters
    ----------
    module : str
        Of one of the tests' folders.
    function : str
        Takes nothing.
    env : mapping
        The whole environment.
    folder : Path
        Current directory.
    """
    read, write = os.pipe()
    end, status = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    request = {"module": module, "function": function, "env": dict(env), "folder": str(folder)}
    try:
        socket.send_fds(_nursery(), [json.dumps(request).encode()], [write, status.fileno()])
    finally:
        os.close(write)
        status.close()
    end.settimeout(60)
    (pid,) = struct.unpack("i", end.recv(4))
    return Child(pid, io.TextIOWrapper(io.FileIO(read), encoding="utf-8"), end)


def _serve(control: socket.socket) -> tuple[str, str] | None:
    """Fork until the other end closes; returns in a child, with what to run, or at the end."""
    ends: dict[int, socket.socket] = {}
    wake, woken = socket.socketpair()
    for one in (wake, woken):
        one.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken.fileno())
    with selectors.DefaultSelector() as events:
        events.register(control, selectors.EVENT_READ)
        events.register(wake, selectors.EVENT_READ)
        while True:
            ready = [key.fileobj for key, _ in events.select()]
            if wake in ready:
                wake.recv(4096)
                _reap(ends)
            if control not in ready:
                continue
            message, fds, *_ = socket.recv_fds(control, _REQUEST_BYTES, 2)
            if not message:
                for pid in ends:
                    os.kill(pid, signal.SIGKILL)
                return None
            output, end = fds[0], socket.socket(fileno=fds[1])
            pid = os.fork()
            if pid == 0:
                break
            os.close(output)
            end.send(struct.pack("i", pid))
            ends[pid] = end
    # The rank: nothing of the nursery stays open in it.
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for one in (control, wake, woken, end, *ends.values()):
        one.close()
    return _become(json.loads(message), output)


def _reap(ends: dict[int, socket.socket]) -> None:
    while ends:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        end = ends.pop(pid)
        with end, contextlib.suppress(OSError):  # nobody may ask any more
            end.send(struct.pack("i", status))


def _become(request: dict[str, object], output: int) -> tuple[str, str]:
    for stream in (1, 2):
        os.dup2(output, stream)
    os.close(output)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(str(request["folder"]))
    return str(request["module"]), str(request["function"])


def _end_early() -> None:
    """End without taking all modules apart, which copies each page that the nursery has filled."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _main() -> None:
    for name in _IMPORTS:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    threads = len(list(Path("/proc/self/task").iterdir()))
    assert threads == 1, f"{threads} threads: an import has made one, which no fork would have"
    gc.collect()
    gc.freeze()
    work = _serve(socket.socket(fileno=int(sys.argv[1])))
    if work is not None:
        module, function = work
        sys.path[:0] = map(str, folders_of(module))
        getattr(importlib.import_module(module), function)()
        if "END_WHOLE" not in os.environ:
            _end_early()


if __name__ == "__main__":
    _main()
