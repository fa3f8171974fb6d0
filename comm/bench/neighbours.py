"""Busy processes beside the benchmark, as another job on the same machine would be."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator

# Computes for as long as whoever started it is there, at the lowest priority.
_BUSY = """
import os
os.nice(19)
parent = os.getppid()
while os.getppid() == parent:
    for _ in range(100_000):
        pass
"""
# What one person starts by mistake must not take the machine down.
MOST = 64
_PATIENCE_S = 10.0


@contextlib.contextmanager
def busy(count: int) -> Iterator[list[int]]:
    """Keep so many processes computing at nice 19.

    Parameters
    ----------
    count : int
        How many, 0 to :data:`MOST`.

    Yields
    ------
    list of int
        Their process ids.
    """
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(count):
            processes.append(subprocess.Popen([sys.executable, "-S", "-c", _BUSY]))
        yield [process.pid for process in processes]
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait(_PATIENCE_S)
