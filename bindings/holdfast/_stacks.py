"""Stacks of this process's threads, for whoever asks why it has not called an op.

faulthandler writes them from a signal's handler, without the interpreter's lock: they can be had of
a thread that is stuck in C, too. The core's page /stack raises the signal on its own thread; on the
same host `holdfast doctor` may send it, where a folder for the flight record says that files are
wanted.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
from pathlib import Path
from typing import IO

from holdfast import _core

# A real-time signal that neither the C library, Python nor torch uses.
SIGNAL = int(signal.SIGRTMIN) + 7


def stack_path(folder: str | os.PathLike[str], pid: int) -> Path:
    """Return where a process writes its stacks.

    Parameters
    ----------
    folder : path
        The option `flight_dir`.
    pid : int
        Of the process.

    Returns
    -------
    Path
        Beside its flight record.
    """
    return Path(folder) / f"holdfast-{pid}.stack"


class Stacks:
    """The file that stacks are written to, and the signal that has them written.

    Parameters
    ----------
    folder : str
        Where the file is to be; empty: in memory.
    """

    def __init__(self, folder: str) -> None:
        self._file: IO[bytes] | None = None
        # A program may use the signal for something else: it keeps it, and tells no stacks.
        if signal.getsignal(SIGNAL) is not signal.SIG_DFL:
            return
        with contextlib.suppress(OSError):  # no stacks are better than no job
            self._file = _open(folder)
            faulthandler.register(SIGNAL, file=self._file, all_threads=True)

    def forked(self) -> None:
        """Close the parent's file in a child, which has nobody to tell."""
        if self._file is not None:
            faulthandler.unregister(SIGNAL)
            self._file.close()
            self._file = None

    def tell(self, node: _core.Node) -> None:
        """Have the page /stack of this node serve them.

        Parameters
        ----------
        node : _core.Node
            Of this process.
        """
        if self._file is not None:
            node.set_stack(self._file.fileno(), SIGNAL)


def _open(folder: str) -> IO[bytes]:
    # Appended to, so that what is cut off at its front leaves no hole.
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    if folder:
        return os.fdopen(os.open(stack_path(folder, os.getpid()), flags, 0o600), "ab", 0)
    memory = os.memfd_create("holdfast-stack", os.MFD_CLOEXEC)
    path = f"/proc/self/fd/{memory}"
    try:
        return os.fdopen(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC), "ab", 0)
    finally:
        os.close(memory)
