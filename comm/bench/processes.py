"""The ranks' processes: started, followed row by row, and ended."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError

_LOOK_S = 0.1
# Ranks that have written nothing for this long hang.
_SILENCE_S = 300.0


def _start(
    module: str, config: dict[str, Any], ranks: int, mpi: list[str]
) -> list[subprocess.Popen[bytes]]:
    file = f"{config['folder']}/config"
    Path(file).write_text(json.dumps(config))
    command = [sys.executable, "-m", module, file]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    if mpi:
        return [subprocess.Popen([*mpi, "-n", str(ranks), *command], env=env, stdout=sys.stderr)]
    return [
        subprocess.Popen([*command, str(rank), str(ranks)], env=env, stdout=sys.stderr)
        for rank in range(ranks)
    ]


def _follow(processes: list[subprocess.Popen[bytes]], file: Path) -> Iterator[list[Any]]:
    silent_since = time.monotonic()
    with file.open() as rows:
        part = ""
        while True:
            statuses = [process.poll() for process in processes]
            for text in iter(rows.readline, ""):
                part += text
                if part.endswith("\n"):
                    yield json.loads(part)
                    part, silent_since = "", time.monotonic()
            if any(status not in (None, 0) for status in statuses):
                raise HoldfastError("a rank of the benchmark failed; its message is above")
            if all(status == 0 for status in statuses):
                return
            if time.monotonic() - silent_since > _SILENCE_S:
                raise HoldfastError(f"the ranks have measured nothing for {_SILENCE_S:.0f} s")
            with contextlib.suppress(subprocess.TimeoutExpired):
                running = (p for p in processes if p.poll() is None)
                next(running, processes[0]).wait(_LOOK_S)


def rows_of(
    module: str, config: dict[str, Any], ranks: int, mpi: list[str] | None = None
) -> Iterator[list[Any]]:
    """Run a module as so many ranks; yield the rows that rank 0 writes.

    Parameters
    ----------
    module : str
        Its arguments are a file with the configuration, rank and size; by mpiexec only the first.
    config : dict
        What it is to do; `folder` and `rows` are added, where ranks meet and where rows go.
    ranks : int
        How many.
    mpi : list of str, optional
        How mpiexec is called, where MPI takes part.

    Yields
    ------
    list
        A row.

    Raises
    ------
    HoldfastError
        When a rank fails, or all hang.
    """
    processes: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        rows = Path(folder, "rows")
        rows.touch()
        try:
            processes = _start(
                module, {**config, "folder": folder, "rows": str(rows)}, ranks, mpi or []
            )
            yield from _follow(processes, rows)
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
