"""Runs a program of Python as `holdfast run` does, on ranks that need not import torch again."""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from ports import held_port
from ranks import Process, start_rank

_LIMIT_S = 120.0


def run_program(
    path: Path,
    size: int,
    here: Path,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    respawn: bool = False,
    killed: int = 0,
) -> str:
    """Run a program on some ranks; returns what they said, when all have ended well.

    Parameters
    ----------
    path : Path
        Of the program.
    size : int
        Ranks.
    here : Path
        Current directory, and where ranks meet.
    *arguments : str
        Of the program.
    env : mapping, optional
        Beside the variables that `holdfast run` sets.
    respawn : bool
        Start a rank again that was killed.
    killed : int
        So many ranks must have been killed.
    """
    port = held_port()
    # A directory for each run: a store serves one job.
    meeting = here / f".meeting-{port}"
    whole = {
        "PROGRAM": str(path),
        "ARGUMENTS": json.dumps(arguments),
        "FOLDER": str(here),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "LOCAL_WORLD_SIZE": str(size),
        **(env or {}),
    }
    meeting.mkdir()

    def start(rank: int) -> Process:
        own = {**whole, "LOCAL_RANK": str(rank)}
        return start_rank("programs", "be_the_program", rank, size, meeting, own)

    deadline = time.monotonic() + _LIMIT_S
    waiting = [(rank, start(rank)) for rank in range(size)]
    said, deaths = [], 0
    try:
        while waiting:
            rank, process = waiting.pop(0)
            try:
                output, _ = process.communicate(timeout=0.05)
            except subprocess.TimeoutExpired:
                waiting.append((rank, process))
                assert time.monotonic() < deadline, f"rank {rank} did not end\n" + "".join(said)
                continue
            said.append(output)
            if process.returncode == -signal.SIGKILL:
                deaths += 1
                assert deaths <= killed, f"rank {rank} was killed\n" + "".join(said)
                waiting += [(rank, start(rank))] if respawn else []
            else:
                assert process.returncode == 0, f"rank {rank}\n" + "".join(said)
    finally:
        for _, process in waiting:
            process.kill()
    assert deaths == killed, f"{deaths} of {killed} ranks were killed\n" + "".join(said)
    return "".join(said)


def be_the_program() -> None:
    """A rank: run the file PROGRAM with the arguments ARGUMENTS in the folder FOLDER."""
    path = os.environ.pop("PROGRAM")
    sys.argv = [path, *json.loads(os.environ.pop("ARGUMENTS"))]
    os.chdir(os.environ.pop("FOLDER"))
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # before a kill, too
    runpy.run_path(path, run_name="__main__")
