"""Busy processes beside the benchmark, as another job on the same machine would be."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator

# Computes for as long as whoever started it is there.
_BUSY = """
import os, sys
os.nice(int(sys.argv[1]))
parent = os.getppid()
while os.getppid() == parent:
    for _ in range(100_000):
        pass
"""
# What one person starts by mistake must not take the machine down.
MOST = 64
_PATIENCE_S = 10.0


@contextlib.contextmanager
def busy(count: int, nice: int = 19) -> Iterator[list[int]]:
    """Keep so many processes computing.

    Parameters
    ----------
    count : int
        How many, 0 to :data:`MOST`.
    nice : int
        By how much they are nicer than this process: 0, of the same priority, to 19, the lowest.

    Yields
    ------
    list of int
        Their process ids.
    """
    processes: list[subprocess.Popen[bytes]] = []
    try:
        command = [sys.executable, "-S", "-c", _BUSY, str(nice)]
        for _ in range(count):
            processes.append(subprocess.Popen(command))
        yield [process.pid for process in processes]
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait(_PATIENCE_S)
