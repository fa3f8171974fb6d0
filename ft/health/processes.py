"""Processes of this host: whether the writer of a flight record still runs, and its stacks.

A process is only believed to be the writer when it has the very file mapped: numbers of processes
are used again, and a signal to the wrong one may end it.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path

from holdfast import _stacks

# For a handler that writes a few kilobytes; the process may wait for a processor first.
_STACK_S = 1.0
_LOOK_S = 0.01


def state_of(pid: int, file: Path) -> str:
    """Return what a record's writer does now.

    Parameters
    ----------
    pid : int
        As the record says.
    file : Path
        The record.

    Returns
    -------
    str
        "running", "stopped" (by a signal, or a debugger), "gone"; empty when it cannot be told.
    """
    try:
        maps = Path(f"/proc/{pid}/maps").read_text()
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return "gone"
    except OSError:
        return ""
    state = next((line.split()[1] for line in status.splitlines() if line[:6] == "State:"), "")
    if state in ("Z", "X"):
        return "gone"
    if os.fspath(file.resolve()) not in maps:
        return "gone"
    return "stopped" if state in ("T", "t") else "running"


def turns_of(pid: int) -> tuple[int, int]:
    """Return how long a process's threads have run, and waited for a processor.

    Parameters
    ----------
    pid : int
        On this host.

    Returns
    -------
    tuple of int
        Nanoseconds run, and ready to run without a processor, of all its threads; zeros where the
        kernel does not tell (it is built without schedstats), or the process is gone.
    """
    ran = waited = 0
    with contextlib.suppress(OSError, ValueError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
                words = (thread / "schedstat").read_text().split()
                ran += int(words[0])
                waited += int(words[1])
    return ran, waited


def _handles_signal(pid: int) -> bool:
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> (_stacks.SIGNAL - 1) & 1)
    return False


def take_stack(pid: int, file: Path) -> str:
    """Have a process of this host write its stacks, and return them.

    Parameters
    ----------
    pid : int
        The writer of a record.
    file : Path
        The record, which has to be mapped by that process.

    Returns
    -------
    str
        Empty when there are none: it is gone, stopped, another's, or tells no stacks.
    """
    path = _stacks.stack_path(file.parent, pid)
    # Without a handler the signal would end the process.
    if state_of(pid, file) != "running" or not path.is_file() or not _handles_signal(pid):
        return ""
    before = path.stat().st_size
    try:
        os.kill(pid, _stacks.SIGNAL)
    except OSError:
        return ""
    pause = threading.Event()
    deadline = time.monotonic() + _STACK_S
    size = before
    while time.monotonic() < deadline:
        pause.wait(_LOOK_S)
        now = path.stat().st_size
        if now > before and now == size:  # it has stopped growing
            break
        size = now
    with path.open("rb") as stacks:
        stacks.seek(before)
        return stacks.read(1 << 18).decode(errors="replace")
